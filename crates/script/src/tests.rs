//! What scripts give, as a Redis 7.0.15 answers them; and that none gets out.

use std::sync::Arc;

use weir_command::error::Error;
use weir_command::reply::Protocol;

use super::*;

/// Answers with what stands behind a command's name; ends a script after so many looks.
struct Fake {
    looks: u64,
}

impl Bridge for Fake {
    fn call(&mut self, words: Vec<Vec<u8>>, protocol: Protocol) -> Vec<u8> {
        match &words[0][..] {
            b"echo" => [b"$", words[1].len().to_string().as_bytes(), b"\r\n", &words[1], b"\r\n"].concat(),
            b"status" => b"+OK\r\n".to_vec(),
            b"null" => b"$-1\r\n".to_vec(),
            b"map" if protocol == Protocol::Resp3 => b"%1\r\n+a\r\n,1.5\r\n".to_vec(),
            b"map" => b"*2\r\n+a\r\n$3\r\n1.5\r\n".to_vec(),
            _ => b"-ERR value is not an integer or out of range\r\n".to_vec(),
        }
    }

    fn may(&self, words: &[Vec<u8>]) -> Option<bool> {
        (words[0] == b"get").then_some(true)
    }

    fn log(&mut self, _: u8, _: &[u8]) {}

    fn why_end(&mut self) -> Option<Error> {
        self.looks = self.looks.checked_sub(1)?;
        (self.looks == 0).then(|| Error::new("ERR it was ended"))
    }
}

fn ended(source: &str, protocol: Protocol) -> String {
    let run_it = |script| {
        let words = |words: &[&str]| words.iter().map(|word| word.as_bytes().to_vec()).collect();
        let it = Run { script: Arc::new(script), keys: words(&["k"]), argv: words(&["a", "b"]), seed: 0, protocol };
        run(it, Box::new(Fake { looks: 100 }))
    };
    match Script::parse(source.as_bytes()).and_then(run_it) {
        Ok(replies) => String::from_utf8_lossy(&replies.to_vec()).into_owned(),
        Err(error) => format!("-{}", String::from_utf8_lossy(error.text())),
    }
}

/// Its digest and its place are left out.
fn told(source: &str) -> String {
    let told = ended(source, Protocol::Resp2);
    match told.find(" script: ") {
        Some(at) => format!("{} @{}", &told[..at], told.trim_end().rsplit(':').next().expect("a line")),
        None => told.trim_end().replace("\r\n", " "),
    }
}

#[test]
fn scripts_give_what_they_give_in_redis() {
    for (source, reply) in [
        ("return redis.call('incr','str')", "-ERR value is not an integer or out of range @1."),
        ("\nreturn redis.call('incr','str')", "-ERR value is not an integer or out of range @2."),
        ("error('oops')", "-ERR user_script:1: oops @1."),
        ("error({err='My Err'})", "-My Err @1."),
        ("return redis.error_reply('MY ERR')", "-MY ERR"),
        ("return redis.error_reply('noc')", "-ERR noc"),
        ("return redis.error_reply()", "-ERR wrong number or type of arguments"),
        ("return redis.status_reply('fine')", "+fine"),
        ("return {1,2,{3,'a'},nil,4}", "*3 :1 :2 *2 :3 $1 a"),
        ("return {1,true,false,3.9,'x'}", "*5 :1 :1 $-1 :3 $1 x"),
        ("return 1 .. nil", "-ERR user_script:1: attempt to concatenate a nil value @1."),
        ("return foo", "-ERR user_script:1: Script attempted to access nonexistent global variable 'foo' @1."),
        ("x=1", "-ERR user_script:1: Attempt to modify a readonly table @1."),
        ("redis.foo=1", "-ERR user_script:1: Attempt to modify a readonly table @1."),
        ("string.foo=1", "-ERR user_script:1: Attempt to modify a readonly table @1."),
        ("_G.x=1", "-ERR user_script:1: Attempt to modify a readonly table @1."),
        ("rawset(string,'a',1)", "-ERR Attempt to modify a readonly table @1."),
        ("setmetatable(_G,nil)", "-ERR Attempt to modify a readonly table @1."),
        ("syntax error", "-ERR Error compiling script (new function): user_script:1: '=' expected near 'error'"),
        ("return redis.call()", "-ERR Please specify at least one argument for this redis lib call @1."),
        ("return redis.call({})", "-ERR Lua redis lib command arguments must be strings or integers @1."),
        ("return redis.pcall('incr','str')", "-ERR value is not an integer or out of range"),
        ("return pcall(redis.call,'incr','str')", "$-1"),
        ("local ok,e=pcall(redis.call,'incr'); return e", "$43 ERR value is not an integer or out of range"),
        ("return redis.sha1hex('')", "$40 da39a3ee5e6b4b0d3255bfef95601890afd80709"),
        ("return redis.sha1hex()", "-ERR wrong number of arguments @1."),
        ("return redis.call('null')", "$-1"),
        ("return type(redis.call('null'))", "$7 boolean"),
        ("return redis.call('status')", "+OK"),
        ("return redis.call('status').ok", "$2 OK"),
        ("return redis.call('echo',1.5)", "$3 1.5"),
        ("return redis.call('echo',10)", "$2 10"),
        ("return redis.call('echo',0.1)", "$19 0.10000000000000001"),
        ("return redis.call('map')", "*2 +a $3 1.5"),
        ("redis.setresp(3); return redis.call('map')", "*2 +a $3 1.5"),
        ("redis.setresp(3); return redis.call('map').map.a", "$-1"),
        ("return redis.setresp(4)", "-ERR RESP version must be 2 or 3. @1."),
        ("return redis.log('x','y')", "-ERR First argument must be a number (log level). @1."),
        ("return redis.log(redis.LOG_WARNING,'y')", "$-1"),
        ("return {double=3.5}", "$3 3.5"),
        ("return {map={a=1}}", "*2 $1 a :1"),
        ("return {set={a=true}}", "*1 $1 a"),
        ("return 1e20", ":-9223372036854775808"),
        ("return {1,2,3,foo='bar'}", "*3 :1 :2 :3"),
        ("return unpack({1,2,3})", ":1"),
        ("return {KEYS[1],ARGV[2],#ARGV}", "*3 $1 k $1 b :2"),
        ("return io", "-ERR user_script:1: Script attempted to access nonexistent global variable 'io' @1."),
        ("return debug", "-ERR user_script:1: Script attempted to access nonexistent global variable 'debug' @1."),
        ("return loadstring('return 5')()", ":5"),
        ("return cjson.encode({1,2,3})", "$7 [1,2,3]"),
        ("return cjson.encode({})", "$2 {}"),
        ("return cjson.encode({a=cjson.null})", "$10 {\"a\":null}"),
        ("return cjson.decode('{\"a\":[1,2]}').a[2]", ":2"),
        ("return cjson.decode('null') == cjson.null", ":1"),
        ("return cjson.decode('x')", "-ERR user_script:1: Expected value but found invalid token at character 1 @1."),
        ("return pcall(cjson.decode,'x')", "$-1"),
        ("return bit.band(12,10)", ":8"),
        ("return bit.tohex(255)", "$8 000000ff"),
        ("return bit.rshift(-1,28)", ":15"),
        ("return tostring(redis.acl_check_cmd('get','x'))", "$4 true"),
        ("#!lua\nreturn 1", ":1"),
        ("local t = {}; t[1] = 5; return t[1]", ":5"),
        ("return ('x'):rep(3)", "$3 xxx"),
        ("return string.format('%d', 5)", "$1 5"),
        ("return string.dump == nil", ":1"),
    ] {
        assert_eq!(told(source), reply, "{source}");
    }
}

#[test]
fn replies_of_resp3_have_their_own_types() {
    for (source, reply) in [
        ("return true", ":1\r\n"),
        ("return false", "_\r\n"),
        ("redis.setresp(3); return true", "#t\r\n"),
        ("redis.setresp(3); return {false}", "*1\r\n#f\r\n"),
        ("return {double=3.5}", ",3.5\r\n"),
        ("return {map={a=1}}", "%1\r\n$1\r\na\r\n:1\r\n"),
        ("return {big_number='12'}", "(12\r\n"),
        ("return {verbatim_string={format='txt',string='a'}}", "=5\r\ntxt:a\r\n"),
        ("redis.setresp(3); return redis.call('map')", "%1\r\n+a\r\n,1.5\r\n"),
    ] {
        assert_eq!(ended(source, Protocol::Resp3), reply, "{source}");
    }
}

/// Whatever it does, it ends: by the look after some instructions, or for want of memory.
#[test]
fn nothing_runs_on_and_nothing_takes_all_memory() {
    for source in [
        "while true do end",
        "while true do pcall(function() while true do end end) end",
        "while true do pcall(redis.call, 'status') end",
        "local f; f = function() return f() end; f()",
        "local c = coroutine.wrap(function() while true do end end); c()",
        "while true do coroutine.resume(coroutine.create(function() while true do end end)) end",
        "while true do xpcall(function() while true do end end, function() end) end",
    ] {
        assert_eq!(ended(source, Protocol::Resp2), "-ERR it was ended", "{source}");
    }
    for source in [
        "local t = {}; while true do t[#t + 1] = string.rep('x', 100000) .. #t end",
        "return string.rep('x', 1000000000)",
        "local s = 'x'; while true do s = s .. s end",
        "return cjson.encode({string.rep('x', 40000000)})",
    ] {
        let reply = ended(source, Protocol::Resp2);
        assert!(reply.contains("memory") || reply.contains("ended"), "{source}: {reply}");
    }
    for (source, part) in [
        ("local f; f = function() return 1 + f() end; return f()", "stack overflow"),
        ("local t = {}; t[1] = t; return t", "stack limit"),
        ("local t = {}; t[1] = t; return cjson.encode(t)", "excessive depth"),
        ("return loadstring('\\27Lua')", "$-1"),
        ("return loadstring(string.char(27) .. 'Lua')", "$-1"),
    ] {
        let reply = ended(source, Protocol::Resp2);
        assert!(reply.contains(part), "{source}: {reply}");
    }
}

#[test]
fn what_is_no_lua_is_refused() {
    assert!(check(&Script::parse(b"return 1").expect("fine")).is_ok());
    let refused = check(&Script::parse(b"return 1 +").expect("fine")).expect_err("it is none");
    let text = "ERR Error compiling script (new function): user_script:1: unexpected symbol near '<eof>'";
    assert_eq!(refused.text(), text.as_bytes());
    assert!(Script::parse(&vec![b' '; (1 << 20) + 1]).is_err());
}
