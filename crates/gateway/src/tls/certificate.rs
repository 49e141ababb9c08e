//! Reads from certificates whom they are for, and how long they are valid.

use x509_cert::Certificate;
use x509_cert::der::Decode;
use x509_cert::ext::pkix::SubjectAltName;
use x509_cert::ext::pkix::name::GeneralName;

/// The names in a certificate that may be a tenant's: its alternative names of the kind DNS, or its common name if it
/// has none of these. A certificate that cannot be read has no names.
pub fn names(der: &[u8]) -> Vec<String> {
    let Ok(certificate) = Certificate::from_der(der) else { return Vec::new() };
    let certificate = certificate.tbs_certificate();
    let alternative = match certificate.get_extension::<SubjectAltName>() {
        Ok(extension) => extension.map(|(_, names)| names.0).unwrap_or_default(),
        Err(_) => return Vec::new(),
    };
    let dns = alternative.iter().filter_map(|name| match name {
        GeneralName::DnsName(name) => Some(name.as_str().to_owned()),
        _ => None,
    });
    let names: Vec<String> = dns.collect();
    if !names.is_empty() {
        return names;
    }
    let common = certificate.subject().common_name().ok().flatten();
    common.map(|name| name.value().into_owned()).into_iter().collect()
}

/// From when to when a certificate is valid, in seconds since 1970; `None` if it cannot be read.
pub(super) fn validity(der: &[u8]) -> Option<(u64, u64)> {
    let certificate = Certificate::from_der(der).ok()?;
    let validity = certificate.tbs_certificate().validity();
    Some((validity.not_before.to_unix_duration().as_secs(), validity.not_after.to_unix_duration().as_secs()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair, SanType, date_time_ymd};

    use super::*;

    /// The bytes of a certificate with these names.
    fn certificate(alternative: Vec<SanType>, common: Option<&str>) -> Vec<u8> {
        let mut params = CertificateParams::default();
        params.subject_alt_names = alternative;
        params.distinguished_name = DistinguishedName::new();
        if let Some(common) = common {
            params.distinguished_name.push(DnType::CommonName, common);
        }
        (params.not_before, params.not_after) = (date_time_ymd(2020, 1, 1), date_time_ymd(2030, 1, 1));
        params.self_signed(&KeyPair::generate().expect("a key")).expect("signed").der().to_vec()
    }

    fn dns(name: &str) -> SanType {
        SanType::DnsName(name.try_into().expect("a name"))
    }

    #[test]
    fn names_are_the_alternative_ones_of_dns_or_else_the_common_one() {
        let uri = SanType::URI("weir:eve".try_into().expect("a name"));
        assert_eq!(names(&certificate(vec![], Some("ada"))), ["ada"]);
        assert_eq!(
            names(&certificate(vec![dns("bob"), uri.clone(), dns("shop.example")], Some("ada"))),
            ["bob", "shop.example"]
        );
        assert_eq!(names(&certificate(vec![uri], Some("ada"))), ["ada"]);
        assert!(names(&certificate(vec![], None)).is_empty());
        assert_eq!(validity(&certificate(vec![], None)), Some((1_577_836_800, 1_893_456_000)));
    }

    proptest! {
        #[test]
        fn damaged_certificates_have_names_or_none(at: prop::sample::Index, byte: u8, cut: prop::sample::Index) {
            let mut bytes = certificate(vec![dns("bob")], Some("ada"));
            let at = at.index(bytes.len());
            bytes[at] = byte;
            names(&bytes);
            bytes.truncate(cut.index(bytes.len()));
            prop_assert!(names(&bytes).is_empty() && validity(&bytes).is_none());
        }
    }
}
