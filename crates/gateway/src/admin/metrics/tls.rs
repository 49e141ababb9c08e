//! TLS handshakes, and how long the certificate is still valid.

use std::fmt;

use super::{Sheet, alone};
use crate::tls::Tls;

const SECONDS_OF_A_DAY: u64 = 86_400;

/// Writes the counters of `tls`, `second` seconds after 1970.
pub(super) fn write(tls: &Tls, second: u64, sheet: &mut Sheet<'_>) -> fmt::Result {
    sheet.counter("weir_tls_handshakes", "TLS handshakes that succeeded", None, alone(tls.done()))?;
    let failed = tls.failed().map(|(cause, count)| ([("cause", cause)], count));
    sheet.counter("weir_tls_handshakes_failed", "TLS handshakes that failed, by cause", None, failed)?;
    let pending = tls.pending() as u64;
    sheet.gauge("weir_tls_handshakes_pending", "TLS handshakes under way", None, alone(pending))?;
    if let Some(expires) = tls.expires() {
        let left = expires.saturating_sub(second) / SECONDS_OF_A_DAY;
        let help = "Whole days for which the certificate is still valid";
        sheet.gauge("weir_tls_certificate_left_days", help, None, alone(left))?;
    }
    Ok(())
}
