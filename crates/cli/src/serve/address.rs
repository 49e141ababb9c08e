//! Where to listen, and whether that is safe (S1).

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};

/// The address that `text`, given to `option`, means. Other machines can reach it only if that was asked for.
///
/// # Errors
/// `text` is no address, or other machines can reach it and `insecure` is not set.
pub fn resolve(text: &str, option: &str, insecure: bool) -> Result<SocketAddr, String> {
    let addresses = text.to_socket_addrs().map_err(|error| format!("{option} {text}: not a HOST:PORT ({error})"))?;
    let addresses: Vec<SocketAddr> = addresses.collect();
    let Some(&address) = addresses.iter().find(|address| address.is_ipv4()).or(addresses.first()) else {
        return Err(format!("{option} {text}: this name has no address"));
    };
    if !is_loopback(address) && !insecure {
        return Err(format!(
            "{option} {text}: everyone who reaches this address could read and alter everything, as no secret is asked for; \
             listen at 127.0.0.1, or say --insecure if the network keeps strangers out"
        ));
    }
    Ok(address)
}

/// Checks that clients may connect to `listen`, given to `option`: from other machines only if they must show secrets
/// or certificates (S1).
///
/// # Errors
/// They need not show any, and `insecure` does not say that this is intended.
pub fn check(listen: SocketAddr, option: &str, secrets: bool, insecure: bool) -> Result<(), String> {
    if is_loopback(listen) || secrets || insecure {
        return Ok(());
    }
    Err(format!(
        "{option} {listen}: everyone who reaches this address could read and write everything, as no tenant has a secret; \
         listen at 127.0.0.1 and give one, or say --insecure if the network keeps strangers out"
    ))
}

/// The other address that `localhost` may mean: `::1`, if `listen` is `127.0.0.1`.
pub fn twin(listen: SocketAddr) -> Option<SocketAddr> {
    (listen.ip() == Ipv4Addr::LOCALHOST).then(|| SocketAddr::from((Ipv6Addr::LOCALHOST, listen.port())))
}

/// Whether the address is in `127.0.0.0/8`, in either notation, or `::1`.
fn is_loopback(address: SocketAddr) -> bool {
    address.ip().to_canonical().is_loopback()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s1_other_machines_need_a_secret_or_the_operators_word() {
        for (listen, secrets, insecure, fine) in [
            ("127.0.0.1:1", false, false, true),
            ("[::1]:1", false, false, true),
            ("[::ffff:127.0.0.1]:1", false, false, true),
            ("[::ffff:10.0.0.1]:1", false, false, false),
            ("0.0.0.0:1", false, false, false),
            ("[::]:1", false, false, false),
            ("10.0.0.1:1", true, false, true),
            ("10.0.0.1:1", false, true, true),
        ] {
            let checked = check(listen.parse().expect("an address"), "--listen", secrets, insecure);
            assert_eq!(checked.is_ok(), fine, "{listen}: {checked:?}");
        }
    }

    #[test]
    fn localhost_has_two_addresses() {
        for (listen, two) in [
            ("127.0.0.1:7", Some("[::1]:7")),
            ("127.0.0.2:7", None),
            ("[::1]:7", None),
            ("0.0.0.0:7", None),
            ("10.0.0.1:7", None),
        ] {
            let expected = two.map(|two| two.parse().expect("an address"));
            assert_eq!(twin(listen.parse().expect("an address")), expected, "{listen}");
        }
    }

    #[test]
    fn only_loopback_is_safe() {
        for safe in ["127.0.0.1:1", "127.9.9.9:1", "[::1]:1"] {
            assert!(resolve(safe, "--listen", false).is_ok(), "{safe}");
        }
        for reachable in ["0.0.0.0:1", "[::]:1", "10.0.0.1:1", "192.168.1.1:1"] {
            assert!(resolve(reachable, "--listen", false).expect_err(reachable).contains("--insecure"));
            assert!(resolve(reachable, "--listen", true).is_ok());
        }
        for broken in ["", "6379", "127.0.0.1", "127.0.0.1:99999"] {
            assert!(resolve(broken, "--listen", true).expect_err(broken).contains("HOST:PORT"));
        }
    }
}
