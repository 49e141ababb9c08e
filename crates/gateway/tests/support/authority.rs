//! An authority that signs certificates, and clients that trust it.

use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, date_time_ymd};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use weir_gateway::tls::{ClientCertificates, Files, Material};
use weir_io::Clock;

use super::Client;

/// An authority that signs certificates.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pub pem: String,
}

/// A certificate and its key, in PEM.
pub struct Pair {
    pub certificate: String,
    pub key: String,
}

/// A client over TLS.
pub type Secured = Client<StreamOwned<ClientConnection, TcpStream>>;

impl Authority {
    pub fn new() -> Self {
        let mut params = CertificateParams::new([]).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "the authority");
        let key = KeyPair::generate().expect("a key");
        let pem = params.self_signed(&key).expect("signed").pem();
        Self { issuer: Issuer::new(params, key), pem }
    }

    /// A certificate for the names `dns` and the common name `common`, valid until the end of a year.
    pub fn sign(&self, dns: &[&str], common: Option<&str>, until: i32) -> Pair {
        let names: Vec<String> = dns.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).expect("names");
        params.distinguished_name = rcgen::DistinguishedName::new();
        if let Some(common) = common {
            params.distinguished_name.push(DnType::CommonName, common);
        }
        (params.not_before, params.not_after) = (date_time_ymd(2020, 1, 1), date_time_ymd(until, 12, 31));
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.issuer).expect("signed").pem();
        Pair { certificate, key: key.serialize_pem() }
    }

    /// The material of a server called `localhost`, whose clients may show certificates of this authority.
    pub fn material(&self, clients: ClientCertificates, clock: Arc<dyn Clock>) -> Material {
        let Pair { certificate, key } = self.sign(&["localhost"], None, 2100);
        let files = Files {
            certificate: certificate.into_bytes(),
            key: key.into_bytes(),
            client_ca: Some(self.pem.clone().into_bytes()),
        };
        Material::new(&files, clients, clock).expect("a pair")
    }

    /// A connection to `address`, of a client that trusts this authority, speaks one version, and may show a
    /// certificate.
    pub fn connect(&self, address: SocketAddr, is_13: bool, shows: Option<&Pair>) -> Secured {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.pem.as_bytes()).expect("PEM")).expect("an authority");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[if is_13 { &TLS13 } else { &TLS12 }])
            .expect("a version")
            .with_root_certificates(roots);
        let config = match shows {
            None => builder.with_no_client_auth(),
            Some(Pair { certificate, key }) => {
                let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes()).expect("PEM")];
                let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).expect("PEM");
                builder.with_client_auth_cert(chain, key).expect("a pair")
            }
        };
        let name = ServerName::try_from("localhost").expect("a name");
        let session = ClientConnection::new(Arc::new(config), name).expect("a client");
        let socket = TcpStream::connect(address).expect("it listens");
        socket.set_read_timeout(Some(Duration::from_secs(30))).expect("a socket");
        Client::over(StreamOwned::new(session, socket))
    }
}
