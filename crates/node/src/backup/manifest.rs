//! The manifest of a backup: what it says about itself. The bytes are in `docs/format/backup.md`.

use weir_journal::Entry;
use weir_model::varint;

use super::copy::Content;
use crate::catalogue::{
    Listing, has_databases, has_plain_engine, has_request_units, has_terms, put_databases, put_engine, put_listing,
    put_log, put_request_units, put_terms, take_databases, take_engine, take_listing, take_log, take_request_units,
    take_terms,
};
use crate::log_kind::LogKind;
use crate::tenant::PARTITIONS_MAX;

/// Version for a tenant that needs nothing but what every version knows.
const PLAIN: u64 = 1;
/// Version for another tenant: the entry for its engine follows.
const WITH_ENGINE: u64 = 2;
/// Version for a tenant with a limit of request units: that limit follows the entry for its engine.
const WITH_UNITS: u64 = 3;
/// Version for a tenant with swapped databases: they follow its limit of request units.
const WITH_DATABASES: u64 = 4;
/// Version for a tenant that says something of its shares: that follows its databases.
const WITH_TERMS: u64 = 5;
/// Version for a tenant that shares a log: that follows its terms.
const WITH_LOG: u64 = 6;
/// Names of files are short.
const NAME_BYTES_MAX: usize = 64;

/// The contents of a backup's manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackupManifest {
    /// The tenant as it was, without its secret.
    pub tenant: Listing,
    /// Files of each partition, in the order of the hash slots.
    pub partitions: Vec<Vec<BackupFile>>,
}

/// A file of a partition's engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackupFile {
    /// Its name in the partition's directory, which cannot lead elsewhere.
    pub name: String,
    /// The length and checksum of its bytes.
    pub content: Content,
}

/// Whether `name` is a name that an engine gives to a file. Any other name, above all one that leads to another
/// directory, is refused (S6).
pub fn is_file_name(name: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    name.len() <= NAME_BYTES_MAX
        && (name == "CURRENT"
            || name.strip_prefix("MANIFEST-").is_some_and(digits)
            || name.strip_suffix(".sst").is_some_and(digits)
            || name.strip_suffix(".snap").is_some_and(digits))
}

/// Whether `name` is that of a partition's directory inside a backup.
pub fn is_partition_name(name: &str) -> bool {
    name.strip_prefix("partition-")
        .and_then(|number| number.parse().ok())
        .is_some_and(|index| partition_name(index) == name)
}

/// The directory of partition `index` inside a backup.
pub fn partition_name(index: usize) -> String {
    format!("partition-{index:03}")
}

impl Entry for BackupManifest {
    const MAGIC: &[u8; 8] = b"WEIRBKUP";
    const PREFIX: &str = "BACKUP-";

    fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let is_plain = has_plain_engine(&self.tenant);
        let version = match (has_databases(&self.tenant), has_request_units(&self.tenant), is_plain) {
            _ if self.tenant.log != LogKind::Own => WITH_LOG,
            _ if has_terms(&self.tenant) => WITH_TERMS,
            (true, ..) => WITH_DATABASES,
            (false, true, _) => WITH_UNITS,
            (false, false, true) => PLAIN,
            (false, false, false) => WITH_ENGINE,
        };
        varint::put(&mut out, version);
        put_listing(&mut out, &self.tenant);
        if version != PLAIN {
            put_engine(&mut out, &self.tenant);
        }
        if version >= WITH_UNITS {
            put_request_units(&mut out, &self.tenant);
        }
        if version >= WITH_DATABASES {
            put_databases(&mut out, &self.tenant);
        }
        if version >= WITH_TERMS {
            put_terms(&mut out, &self.tenant);
        }
        if version >= WITH_LOG {
            put_log(&mut out, &self.tenant);
        }
        varint::put(&mut out, self.partitions.len() as u64);
        for files in &self.partitions {
            varint::put(&mut out, files.len() as u64);
            for BackupFile { name, content } in files {
                varint::put(&mut out, name.len() as u64);
                out.extend_from_slice(name.as_bytes());
                varint::put(&mut out, content.bytes);
                out.extend_from_slice(&content.crc.to_le_bytes());
            }
        }
        out
    }

    fn decode(bytes: &[u8]) -> Result<Self, usize> {
        let mut rest = bytes;
        decode(&mut rest).filter(|_| rest.is_empty()).ok_or(bytes.len() - rest.len())
    }
}

fn decode(rest: &mut &[u8]) -> Option<BackupManifest> {
    let version = varint::take(rest)?;
    let tenant = match version {
        PLAIN => take_listing(rest)?,
        WITH_ENGINE => {
            let listing = take_listing(rest)?;
            take_engine(rest, listing)?
        }
        WITH_UNITS => {
            let listing = take_listing(rest)?;
            let listing = take_engine(rest, listing)?;
            take_request_units(rest, listing)?
        }
        WITH_DATABASES | WITH_TERMS | WITH_LOG => {
            let listing = take_listing(rest)?;
            let listing = take_engine(rest, listing)?;
            let listing = take_request_units(rest, listing)?;
            let mut listing = take_databases(rest, listing)?;
            if version >= WITH_TERMS {
                listing = take_terms(rest, listing)?;
            }
            if version >= WITH_LOG { take_log(rest, listing)? } else { listing }
        }
        _ => return None,
    };
    let count = varint::take(rest)
        .filter(|&count| count <= PARTITIONS_MAX.into() && count == tenant.partitions.len() as u64)?;
    let partitions = (0..count).map(|_| take_files(rest)).collect::<Option<_>>()?;
    Some(BackupManifest { tenant, partitions })
}

fn take_files(rest: &mut &[u8]) -> Option<Vec<BackupFile>> {
    let count = varint::take(rest)?;
    // Grows with the bytes that are there, not with what is announced.
    let mut files = Vec::new();
    for _ in 0..count {
        let name = std::str::from_utf8(varint::take_slice(rest)?).ok().filter(|name| is_file_name(name))?;
        let bytes = varint::take(rest)?;
        let (crc, after) = rest.split_first_chunk()?;
        *rest = after;
        files.push(BackupFile { name: name.to_owned(), content: Content { bytes, crc: u32::from_le_bytes(*crc) } });
    }
    Some(files)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use weir_admission::policy::share::ShareTerms;
    use weir_model::engine::EngineKind;
    use weir_model::{Databases, TenantId, TenantName};

    use super::*;
    use crate::tenant::TenantSettings;

    #[test]
    fn s6_no_name_of_a_file_leads_elsewhere() {
        for fine in ["CURRENT", "MANIFEST-000007", "000012.sst", "00ab.sst", "000012.snap"] {
            assert!(is_file_name(fine), "{fine}");
        }
        for wrong in [
            "",
            ".",
            "..",
            "../x.sst",
            "/etc/passwd",
            "a/b.sst",
            ".sst",
            "MANIFEST-",
            "MANIFEST-../1",
            "x.sst",
            "1.sst\0",
            "CURRENT/",
        ] {
            assert!(!is_file_name(wrong), "{wrong:?}");
        }
    }

    proptest! {
        #[test]
        fn a_manifest_decodes_to_itself(
            (engine, memory_bytes_max, other) in (0_usize..EngineKind::ALL.len(), 0_u64..3, 0_u8..3),
            (weight, log) in (1_u16..4, 0..LogKind::ALL.len()),
            files in proptest::collection::vec(proptest::collection::vec(("[0-9]{6}\\.sst", any::<u64>(), any::<u32>()), 0..4), 1..4),
        ) {
            let partitions: Vec<Vec<_>> = files
                .into_iter()
                .map(|files| files.into_iter().map(|(name, bytes, crc)| BackupFile { name, content: Content { bytes, crc } }).collect())
                .collect();
            let terms = ShareTerms { weight, ..ShareTerms::default() };
            let settings = TenantSettings { memory_bytes_max, terms, ..TenantSettings::default() };
            let tenant = Listing {
                id: TenantId(7),
                engine: EngineKind::ALL[engine],
                log: LogKind::ALL[log],
                name: TenantName::built_in(),
                partitions: (0..partitions.len() as u32).collect(),
                databases: Databases::AS_NAMED.swapped(0, other),
                settings,
            };
            let manifest = BackupManifest { tenant, partitions };
            let bytes = manifest.encode();
            prop_assert_eq!(BackupManifest::decode(&bytes), Ok(manifest));
            for cut in 0..bytes.len() {
                prop_assert!(BackupManifest::decode(&bytes[..cut]).is_err());
            }
        }

        #[test]
        fn any_bytes_decode_or_are_refused_without_a_panic(bytes: Vec<u8>) {
            let _ = BackupManifest::decode(&bytes);
        }
    }
}
