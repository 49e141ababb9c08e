//! An independent parser of replies that accepts only what the protocol allows.

/// A reply as a client sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    Status(String),
    Error(String),
    Integer(i64),
    Bulk(Vec<u8>),
    Text(String),
    Null,
    Array(Vec<Reply>),
    Map(Vec<Reply>),
    Set(Vec<Reply>),
    /// A message that nobody asked for.
    Push(Vec<Reply>),
}

impl Reply {
    /// Whether it contains an error. Only the reply of `EXEC` may contain some.
    pub fn has_errors(&self) -> bool {
        match self {
            Reply::Array(elements) | Reply::Map(elements) | Reply::Set(elements) | Reply::Push(elements) => {
                elements.iter().any(|element| matches!(element, Reply::Error(_)) || element.has_errors())
            }
            _ => false,
        }
    }
}

/// The reply at the front of `bytes`, and its length; `None` if its end is missing.
///
/// # Errors
/// No reply begins like this.
pub fn parse(bytes: &[u8], resp3: bool) -> Result<Option<(Reply, usize)>, String> {
    let Some(&kind) = bytes.first() else { return Ok(None) };
    let kinds: &[u8] = if resp3 { b"+-:$*_=%~>" } else { b"+-:$*" };
    if !kinds.contains(&kind) {
        return Err(format!("no reply begins with {:?}", char::from(kind)));
    }
    let Some(end) = bytes.iter().position(|byte| matches!(byte, b'\r' | b'\n')) else { return Ok(None) };
    match bytes.get(end..end + 2) {
        None if bytes[end] == b'\r' => return Ok(None),
        Some(b"\r\n") => {}
        _ => return Err("a line that does not end with \\r\\n".into()),
    }
    let line = std::str::from_utf8(&bytes[1..end]).map_err(|_| "a line that is no text".to_owned())?;
    let at = end + 2;
    let number = || {
        let digits = line.strip_prefix('-').unwrap_or(line);
        let is_plain = digits == "0" && digits == line || digits.starts_with(|first| ('1'..='9').contains(&first));
        line.parse::<i64>().ok().filter(|_| is_plain).ok_or(format!("no number: {line:?}"))
    };
    let string = |len: i64| {
        let len = usize::try_from(len).map_err(|_| format!("no length: {len}"))?;
        match bytes.get(at + len..) {
            None | Some([] | [b'\r']) => Ok(None),
            Some([b'\r', b'\n', ..]) => Ok(Some((&bytes[at..at + len], at + len + 2))),
            Some(_) => Err(format!("a string is longer than the {len} bytes it announced")),
        }
    };
    let count = match kind {
        b'+' => return Ok(Some((Reply::Status(line.into()), at))),
        b'-' => return checked_error(line).map(|()| Some((Reply::Error(line.into()), at))),
        b':' => return Ok(Some((Reply::Integer(number()?), at))),
        b'_' if line.is_empty() => return Ok(Some((Reply::Null, at))),
        b'_' => return Err("a null with something in it".into()),
        b'$' | b'*' if line == "-1" && !resp3 => return Ok(Some((Reply::Null, at))),
        b'$' => return Ok(string(number()?)?.map(|(value, at)| (Reply::Bulk(value.into()), at))),
        b'=' => {
            let Some((value, at)) = string(number()?)? else { return Ok(None) };
            let text = std::str::from_utf8(value).ok().and_then(|text| text.strip_prefix("txt:"));
            return text.map(|text| Some((Reply::Text(text.into()), at))).ok_or("no text".into());
        }
        b'%' => 2 * number()?,
        _ => number()?,
    };
    if count < 0 {
        return Err(format!("{count} elements"));
    }
    let (mut elements, mut at) = (Vec::new(), at);
    for _ in 0..count {
        let Some((element, len)) = parse(&bytes[at..], resp3)? else { return Ok(None) };
        elements.push(element);
        at += len;
    }
    let reply = match kind {
        b'%' => Reply::Map(elements),
        b'~' => Reply::Set(elements),
        b'>' => Reply::Push(elements),
        _ => Reply::Array(elements),
    };
    Ok(Some((reply, at)))
}

/// Checks that an error is one code and a text, and that the text does not begin like another error.
fn checked_error(line: &str) -> Result<(), String> {
    let (code, text) = line.split_once(' ').ok_or(format!("an error without a text: {line:?}"))?;
    let is_code = !code.is_empty() && code.bytes().all(|byte| byte.is_ascii_uppercase());
    let is_doubled = text.starts_with('-') || text.starts_with("ERR ") || text.contains(" -ERR ");
    if is_code && !is_doubled { Ok(()) } else { Err(format!("no error: {line:?}")) }
}
