//! Why a handshake failed.

use rustls::Error;

/// A reason why a handshake failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Failure {
    /// The client's first bytes are not TLS.
    Plaintext,
    /// It took too long.
    TimedOut,
    /// Too many other handshakes were under way.
    Displaced,
    /// The client has gone.
    Closed,
    /// Client and server have no version or cipher in common.
    Incompatible,
    /// The client has shown no certificate, although it has to.
    NoCertificate,
    /// The client's certificate is not trusted.
    BadCertificate,
    /// The client has refused to go on, most often because it does not trust our certificate.
    Refused,
    /// Anything else that is not as it should be.
    Protocol,
}

impl Failure {
    /// All reasons.
    pub(crate) const ALL: [Self; 9] = [
        Failure::Plaintext,
        Failure::TimedOut,
        Failure::Displaced,
        Failure::Closed,
        Failure::Incompatible,
        Failure::NoCertificate,
        Failure::BadCertificate,
        Failure::Refused,
        Failure::Protocol,
    ];

    /// The name of the reason in metrics.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Failure::Plaintext => "plaintext",
            Failure::TimedOut => "timed_out",
            Failure::Displaced => "displaced",
            Failure::Closed => "closed",
            Failure::Incompatible => "incompatible",
            Failure::NoCertificate => "no_certificate",
            Failure::BadCertificate => "bad_certificate",
            Failure::Refused => "refused",
            Failure::Protocol => "protocol",
        }
    }

    /// The text of the reason in the log.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Failure::Plaintext => {
                "TLS connection refused: the client does not speak TLS; switch TLS on in the client, or connect to \
                 the port of `listen`"
            }
            Failure::TimedOut => "TLS connection refused: the handshake took more than 5 seconds",
            Failure::Displaced => "TLS connection refused: too many handshakes are under way",
            Failure::Closed => "TLS connection ended: the client closed it in the middle of the handshake",
            Failure::Incompatible => {
                "TLS connection refused: client and server have no version or cipher in common (the server knows TLS \
                 1.2 and 1.3)"
            }
            Failure::NoCertificate => {
                "TLS connection refused: the client showed no certificate, but tls_client_certificates is \"required\""
            }
            Failure::BadCertificate => {
                "TLS connection refused: the client's certificate has expired, or is not signed by tls_client_ca"
            }
            Failure::Refused => {
                "TLS connection ended by the client: it may not trust tls_certificate, or expect another name in it"
            }
            Failure::Protocol => "TLS connection refused: the client violated the TLS protocol",
        }
    }
}

impl From<&Error> for Failure {
    fn from(error: &Error) -> Self {
        match error {
            Error::PeerIncompatible(_) | Error::NoApplicationProtocol => Failure::Incompatible,
            Error::NoCertificatesPresented => Failure::NoCertificate,
            Error::InvalidCertificate(_) | Error::InvalidCertRevocationList(_) => Failure::BadCertificate,
            Error::AlertReceived(_) => Failure::Refused,
            _ => Failure::Protocol,
        }
    }
}
