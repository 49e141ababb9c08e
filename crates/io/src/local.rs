//! Paths that people type: they must name something on this machine, not an address elsewhere.

use std::path::{Path, PathBuf};

use crate::{Error, ErrorKind, Result};

/// Returns `path`, unless it looks like a URL: taken as a path, `s3://bucket/x` would silently become a directory `s3:`
/// on this machine.
///
/// # Errors
/// `Invalid` for a path that begins with a scheme and `://`.
pub fn local_path(path: PathBuf) -> Result<PathBuf> {
    match scheme(&path) {
        None => Ok(path),
        Some(scheme) => {
            let message = format!(
                "only directories and files of this machine can be used, not `{scheme}://` addresses: give a path, \
                 such as /backup/shop"
            );
            Err(Error::new(ErrorKind::Invalid, "use", &path, message))
        }
    }
}

/// The scheme of a path that looks like a URL (RFC 3986, section 3.1).
fn scheme(path: &Path) -> Option<&str> {
    let (scheme, _) = path.to_str()?.split_once("://")?;
    let mut letters = scheme.chars();
    let is_scheme = letters.next().is_some_and(|first| first.is_ascii_alphabetic())
        && letters.all(|letter| letter.is_ascii_alphanumeric() || "+-.".contains(letter));
    is_scheme.then_some(scheme)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_other_places_are_no_paths() {
        for url in ["s3://bucket/x", "S3://b", "https://host/x", "file:///backup/x", "gs://b", "svn+ssh://h/x", "a://"]
        {
            let error = local_path(url.into()).expect_err(url);
            assert!(error.kind() == ErrorKind::Invalid && error.to_string().contains("give a path"), "{error}");
        }
        for path in
            ["/backup/x", "x", "./s3:/b", "s3:", "s3:/b", "://x", "-", "3s://b", "/a/s3://b", "ä://b", "a b://c"]
        {
            assert_eq!(local_path(path.into()).expect(path), Path::new(path));
        }
    }
}
