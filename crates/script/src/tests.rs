//! What scripts return, compared with the answers of a Redis 7.0.15; and that no script gets out of the sandbox.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use weir_command::error::{Error, Outcome};
use weir_command::reply::Protocol;

use super::*;

mod libraries;

/// Answers with the words behind a command's name.
struct Fake;

impl Bridge for Fake {
    fn call(&mut self, words: Vec<Vec<u8>>, protocol: Protocol) -> Outcome<Vec<u8>> {
        Ok(match &words[0][..] {
            b"echo" => [b"$", words[1].len().to_string().as_bytes(), b"\r\n", &words[1], b"\r\n"].concat(),
            b"status" => b"+OK\r\n".to_vec(),
            b"null" => b"$-1\r\n".to_vec(),
            b"map" if protocol == Protocol::Resp3 => b"%1\r\n+a\r\n,1.5\r\n".to_vec(),
            b"many" => [&b"*2000000\r\n"[..], &b":1\r\n".repeat(2_000_000)[..]].concat(),
            b"map" => b"*2\r\n+a\r\n$3\r\n1.5\r\n".to_vec(),
            _ => b"-ERR value is not an integer or out of range\r\n".to_vec(),
        })
    }
}

/// Ends a script after a number of checks.
struct Looks(AtomicU64);

impl World for Looks {
    fn may(&self, words: &[Vec<u8>]) -> Option<bool> {
        (words[0] == b"get").then_some(true)
    }

    fn log(&self, _: u8, _: &[u8]) {}

    fn left_out(&self, _: &str, _: &Error) {}

    fn why_end(&self) -> Option<Error> {
        (self.0.fetch_add(1, Ordering::Relaxed) >= 100).then(|| Error::new("ERR it was ended"))
    }

    fn no_memory(&self) -> Option<Error> {
        None
    }
}

/// Notes the libraries that are left out.
#[derive(Default)]
struct LeftOut(parking_lot::Mutex<Vec<String>>);

impl World for LeftOut {
    fn may(&self, _: &[Vec<u8>]) -> Option<bool> {
        None
    }

    fn log(&self, _: u8, _: &[u8]) {}

    fn left_out(&self, library: &str, why: &Error) {
        self.0.lock().push(format!("{library}: {}", String::from_utf8_lossy(why.text())));
    }

    fn why_end(&self) -> Option<Error> {
        None
    }

    fn no_memory(&self) -> Option<Error> {
        None
    }
}

const LIMITS: Limits = Limits { instructions: 10_000, memory_bytes: MEMORY_BYTES_MAX };

fn run_in(machine: &mut Machine, script: Script, protocol: Protocol) -> Ended {
    run_in_world(machine, script, protocol, &(Arc::new(Looks(AtomicU64::new(0))) as Arc<dyn World>))
}

fn run_in_world(machine: &mut Machine, script: Script, protocol: Protocol, world: &Arc<dyn World>) -> Ended {
    let words = |words: &[&str]| words.iter().map(|word| word.as_bytes().to_vec()).collect();
    let it =
        Run { what: What::Script(Arc::new(script)), keys: words(&["k"]), argv: words(&["a", "b"]), seed: 0, protocol };
    machine.run(&it, LIMITS, &mut Fake, world)
}

fn ended(source: &str, protocol: Protocol) -> String {
    ended_in(&mut Machine::new().expect("a machine"), source, protocol)
}

fn ended_in(machine: &mut Machine, source: &str, protocol: Protocol) -> String {
    let run_it = |script| run_in(machine, script, protocol);
    match Script::parse(source.as_bytes()).and_then(run_it) {
        Ok(replies) => String::from_utf8_lossy(&replies.to_vec()).into_owned(),
        Err(error) => format!("-{}", String::from_utf8_lossy(error.text())),
    }
}

/// The reply of a script, without digest and place.
fn told(source: &str) -> String {
    let told = ended(source, Protocol::Resp2);
    match told.find(" script: ") {
        Some(at) => format!("{} @{}", &told[..at], told.trim_end().rsplit(':').next().expect("a line")),
        None => told.trim_end().replace("\r\n", " "),
    }
}

#[test]
fn texts_of_statuses_errors_and_verbatim_strings_are_told_as_c_tells_them() {
    for (source, reply) in [
        ("return {ok='a\\255b'}", &b"+a\xffb\r\n"[..]),
        ("return {ok='a\\nb\\0c'}", b"+a b\r\n"),
        ("return {err='My err\\r\\n'}", b"-My err\r\n"),
        ("return {err='My\\nerr\\0x'}", b"-My err\r\n"),
        ("return {verbatim_string={format='txt',string='x'}}", b"=5\r\ntxt:x\r\n"),
        ("return {verbatim_string={format='markdown',string='x'}}", b"=5\r\nmar:x\r\n"),
        ("return {verbatim_string={format='m',string='x'}}", b"=5\r\nm  :x\r\n"),
    ] {
        let script = Script::parse(source.as_bytes()).expect("a script");
        let told = run_in(&mut Machine::new().expect("a machine"), script, Protocol::Resp3).expect("a reply").to_vec();
        assert_eq!(told.escape_ascii().to_string(), reply.escape_ascii().to_string(), "{source}");
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
        ("table.insert(string,1)", "-ERR Attempt to modify a readonly table @1."),
        ("setmetatable(_G,nil)", "-ERR Attempt to modify a readonly table @1."),
        ("syntax error", "-ERR Error compiling script (new function): user_script:1: '=' expected near 'error'"),
        ("return redis.call()", "-ERR Please specify at least one argument for this redis lib call @1."),
        ("return redis.call({})", "-ERR Lua redis lib command arguments must be strings or integers @1."),
        ("return redis.pcall('incr','str')", "-ERR value is not an integer or out of range"),
        ("return pcall(redis.call,'incr','str')", "$-1"),
        ("local ok,e=pcall(redis.call,'incr'); return e", "$43 ERR value is not an integer or out of range"),
        ("return redis.sha1hex('')", "$40 da39a3ee5e6b4b0d3255bfef95601890afd80709"),
        ("return redis.sha1hex(0.1)", "$40 180505679cfe0cca79bae51fdda0296b7cd9c493"),
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
        ("redis.setresp('3') return redis.call('map')", "*2 +a $3 1.5"),
        ("return redis.setresp(3.9)", "$-1"),
        ("return redis.log('3','y')", "$-1"),
        ("return redis.log(3.9,'y')", "$-1"),
        ("return redis.log(4,'y')", "-ERR Invalid debug level. @1."),
        ("return redis.error_reply('MY err\\r\\n').err", "$6 MY err"),
        ("return redis.acl_check_cmd()", "-ERR Please specify at least one argument for this redis lib call @1."),
        ("return redis.acl_check_cmd({})", "-ERR Lua redis lib command arguments must be strings or integers @1."),
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
        (
            "return {struct.size('!4i3'), struct.size('!4hi3'), struct.size('!8i6'), #struct.pack('!4i3', 1)}",
            "*4 :5 :5 :10 :5",
        ),
        ("return cjson.encode({1,2,3})", "$7 [1,2,3]"),
        ("return cjson.encode({})", "$2 {}"),
        ("return cjson.encode({a=cjson.null})", "$10 {\"a\":null}"),
        ("return cjson.decode('{\"a\":[1,2]}').a[2]", ":2"),
        ("return cjson.decode('null') == cjson.null", ":1"),
        ("return cjson.decode('x')", "-ERR user_script:1: Expected value but found invalid token at character 1 @1."),
        ("return pcall(cjson.decode,'x')", "$-1"),
        (
            "cjson.encode_max_depth(1) return cjson.encode({{}})",
            "-ERR user_script:1: Cannot serialise, excessive nesting (2) @1.",
        ),
        (
            "cjson.decode_max_depth(1) return cjson.decode('[[1]]')",
            "-ERR user_script:1: Found too many nested data structures (2) at character 2 @1.",
        ),
        ("cjson.encode_invalid_numbers(true) return cjson.encode({0/0,1/0,-1/0})", "$14 [nan,inf,-inf]"),
        ("cjson.encode_invalid_numbers('null') return cjson.encode({0/0})", "$6 [null]"),
        ("return tostring(cjson.decode('[-inf]')[1])", "$4 -inf"),
        (
            "cjson.decode_invalid_numbers(false) return cjson.decode('[inf]')",
            "-ERR user_script:1: Expected value but found invalid token at character 2 @1.",
        ),
        ("cjson.encode_number_precision(3) return cjson.encode(1.23456)", "$4 1.23"),
        ("return {cjson.encode_sparse_array()}", "*3 $-1 :2 :10"),
        ("cjson.encode_sparse_array(true) return cjson.encode({[100]=1})", "$9 {\"100\":1}"),
        ("cjson.encode_sparse_array(true,0) return #cjson.encode({[100]=1})", ":498"),
        ("return {cjson.encode_keep_buffer(), cjson.encode_max_depth('7')}", "*2 :1 :7"),
        (
            "return cjson.encode_max_depth(0)",
            "-ERR user_script:1: bad argument #1 to 'encode_max_depth' (expected integer between 1 and 2147483647) @1.",
        ),
        (
            "return cjson.encode_max_depth('x')",
            "-ERR user_script:1: bad argument #1 to 'encode_max_depth' (number expected, got string) @1.",
        ),
        (
            "return cjson.encode_max_depth(1,2)",
            "-ERR user_script:1: bad argument #2 to 'encode_max_depth' (found too many arguments) @1.",
        ),
        (
            "return cjson.encode_invalid_numbers(1)",
            "-ERR user_script:1: bad argument #1 to 'encode_invalid_numbers' (invalid option '1') @1.",
        ),
        (
            "local own = cjson.new() own.encode_number_precision(2) return own.encode(1.55) .. cjson.encode(1.55)",
            "$7 1.61.55",
        ),
        ("return bit.band(12,10)", ":8"),
        ("return bit.tohex(255)", "$8 000000ff"),
        ("return bit.rshift(-1,28)", ":15"),
        ("return tostring(redis.acl_check_cmd('get','x'))", "$4 true"),
        ("#!lua\nreturn 1", ":1"),
        ("local t = {}; t[1] = 5; return t[1]", ":5"),
        ("return ('x'):rep(3)", "$3 xxx"),
        ("return string.format('%d', 5)", "$1 5"),
        ("return table.concat({1, 2, 3}, ',', '2')", "$3 2,3"),
        ("return tostring(table.maxn({1, 2, [7.5] = 1, x = 9}))", "$3 7.5"),
        ("return table.maxn({})", ":0"),
        ("table.insert(nil, 1)", "-ERR user_script:1: bad argument #1 to 'insert' (table expected, got nil) @1."),
        ("return loadstring(string.dump(function() end))()", "-ERR user_script:1: attempt to call a nil value @1."),
        ("getmetatable(_G).__index = {}", "-ERR user_script:1: Attempt to modify a readonly table @1."),
        ("return getmetatable(redis) == nil", ":1"),
        ("return {('hello world'):find('o w')}", "*2 :5 :7"),
        ("return {('key=val'):match('(%w+)=(%w+)')}", "*2 $3 key $3 val"),
        ("local t = {} for k in ('a,b'):gmatch('%a') do t[#t + 1] = k end return t", "*2 $1 a $1 b"),
        ("return {('abc'):gsub('%w', '%0%0')}", "*2 $6 aabbcc :3"),
        ("return {('abc'):gsub('%w', {b = 'x'})}", "*2 $3 axc :3"),
        ("return {('a b'):gsub('(%w) (%w)', function(a, b) return b .. a end)}", "*2 $2 ba :1"),
        ("return {('abc'):gsub('', '-')}", "*2 $7 -a-b-c- :4"),
        ("return {('abc'):gsub('', function() return '-' end)}", "*2 $7 -a-b-c- :4"),
        ("return {('aaa'):gsub('a', function() end, 2)}", "*2 $3 aaa :2"),
        ("return {('aaa'):gsub('^a', function() return 'x' end)}", "*2 $3 xaa :1"),
        ("return ('x'):find('[')", "-ERR user_script:1: malformed pattern (missing ']') @1."),
    ] {
        assert_eq!(told(source), reply, "{source}");
    }
}

/// An error itself has a traceback that the machine's limit of memory does not see.
#[test]
fn a_handler_of_errors_gets_what_redis_gives_it() {
    for (body, kind, text) in [
        ("redis.call('incr', 'str')", "table", "ERR value is not an integer or out of range"),
        ("redis.sha1hex()", "table", "ERR wrong number of arguments"),
        ("string.find('x', '[')", "string", "user_script:1: malformed pattern (missing ']')"),
        ("error('oops')", "string", "user_script:1: oops"),
        ("error({err = 'My Err'})", "table", "My Err"),
    ] {
        let source = format!(
            "local kept local ok = xpcall(function() {body} end, function(e) kept = e return 'handled' end) \
             return {{type(kept), type(kept) == 'table' and kept.err or kept, tostring(ok)}}"
        );
        let (kind_len, len) = (kind.len(), text.len());
        assert_eq!(told(&source), format!("*3 ${kind_len} {kind} ${len} {text} $5 false"), "{body}");
        // `xpcall` returns what the handler returns, and a coroutine gives what the handler got.
        for (catch, gives) in [
            ("xpcall(function() {body} end, function(e) return e end)", kind),
            ("coroutine.resume(coroutine.create(function() {body} end))", kind),
            ("pcall(coroutine.wrap(function() {body} end))", "string"),
            ("pcall(function() {body} end)", "string"),
        ] {
            let catch = catch.replace("{body}", body);
            let source = format!("return type(select(2, {catch}))");
            assert_eq!(told(&source), format!("${} {gives}", gives.len()), "{catch}");
        }
    }
    assert_eq!(
        told("local _, e = xpcall(function() redis.call('incr', 'str') end, function(e) return e end) error(e)"),
        "-ERR value is not an integer or out of range @1."
    );
    assert_eq!(told("return {xpcall(function() return 1, 2 end, function() end)}"), "*3 :1 :1 :2");
    assert_eq!(told("return select(2, xpcall(error, function(e) return 'handled' end))"), "$7 handled");
    assert!(told("return xpcall(error)").contains("bad argument #2 to"));
}

/// Looking for it takes long where there are many calls.
#[test]
fn the_line_of_an_error_is_that_of_a_call_near_by() {
    for (calls, has_line) in [(10, true), (100, false)] {
        let body = "local f, n = ... if n == 0 then redis.sha1hex() end local it = f(f, n - 1) return it";
        let source = format!("local f = loadstring('{body}', '=own') f(f, {calls})");
        let told = ended(&source, Protocol::Resp2);
        assert!(told.starts_with("-ERR wrong number of arguments script: "), "{told}");
        assert_eq!(told.contains(", on @user_script:1."), has_line, "{told}");
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

#[test]
fn maps_and_sets_of_any_length_are_told() {
    for (source, front) in [
        ("local m = {} for i = 1, 9000 do m['k' .. i] = 'v' end return {map = m}", "%9000\r\n$"),
        ("local m = {} for i = 1, 9000 do m['k' .. i] = true end return {set = m}", "~9000\r\n$"),
    ] {
        let told = ended(source, Protocol::Resp3);
        assert!(told.starts_with(front), "{source}: {}", &told[..told.len().min(100)]);
    }
}

/// Scripts that need more memory than they may have.
const TOO_LARGE: &[&str] = &[
    "local t = {}; while true do t[#t + 1] = string.rep('x', 100000) .. #t end",
    "return string.rep('x', 1000000000)",
    "local s = 'x'; while true do s = s .. s end",
    "local f = coroutine.wrap(function() return string.rep('x', 1000000000) end); return f()",
    "return cjson.encode({string.rep('x', 40000000)})",
    "local s, t = ('x'):rep(1000000), {}; for i = 1, 250 do t[i] = s end; return redis.pcall('echo', unpack(t))",
    "local s, t = ('x'):rep(1000000), {}; for i = 1, 250 do t[i] = s end; return #cmsgpack.pack(t)",
    "local s, t = ('x'):rep(1000000), {}; for i = 1, 250 do t[i] = s end; return #cmsgpack.pack(unpack(t))",
    "local t = {}; for i = 1, 15 do t = {t, t, t, t, t, t, t, t} end; return #cmsgpack.pack(t)",
    "local s, t = ('x'):rep(1000000), {}; for i = 1, 250 do t[i] = s end; return redis.acl_check_cmd(unpack(t))",
    "return #('x'):rep(1000000):gsub('.*', ('%0'):rep(1000000))",
    "return #('x'):rep(1000000):gsub('(.*)', ('%1'):rep(1000000))",
    "return #('x'):rep(1000):gsub('.', {x = ('y'):rep(1000000)})",
    "return #('x'):rep(1000):gsub('.', ('y'):rep(1000000))",
    "return cmsgpack.unpack(('\\1'):rep(8000000))",
    "return cmsgpack.unpack_limit(('\\1'):rep(8000000), 8000000)",
    "return struct.unpack(('b'):rep(8000000), ('x'):rep(8000000))",
    "local s, t = ('x'):rep(1000000), {}; for i = 1, 250 do t[i] = s end; return struct.pack(('s'):rep(250), unpack(t))",
    "return ('a'):find(('.?'):rep(2000000))",
    "return ('a'):match(('.?'):rep(2000000))",
    "return ('a'):gsub(('.?'):rep(2000000), 'x')",
    "local t, p = {}, ('.?'):rep(100000); for i = 1, 30 do t[i] = ('a'):gmatch(p) end; return #t",
    "local t = {}; for i = 1, 5000 do t[i] = ('a'):gmatch('a') end; return #t",
];

/// A script ends whatever it does: by the check after some instructions, or because memory runs out.
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
        // Each coroutine has few instructions.
        "local function f(n) if n > 0 then for i = 1, 100 do coroutine.wrap(f)(n - 1) end end end f(2)",
        "local co, f = coroutine f = function(n) if n > 0 then for i = 1, 100 do \
         co.resume(co.create(f), n - 1) end end end f(2)",
        // Eighteen tables, which are half a million where they are written out.
        "local t = {} for i = 1, 18 do t = {t, t} end return t",
        "local t = {} for i = 1, 18 do t = {map = {a = t, b = t}} end return t",
        "local t = {} for i = 1, 18 do t = {t, t} end return #cjson.encode(t)",
        "local t = {} for i = 1, 18 do t = {a = t, b = t} end return #cjson.new().encode(t)",
        "local t = {} for i = 1, 18 do t = {t, t} end return pcall(cjson.encode, t)",
        "return #redis.call('many')",
        // Long texts that become small values.
        "return cjson.decode('{' .. ('\"a\":1,'):rep(2000000) .. '\"a\":1}').a",
        "return cjson.new().decode('{' .. ('\"a\":1,'):rep(2000000) .. '\"a\":1}').a",
        "return cmsgpack.unpack('\\223\\0\\30\\132\\128' .. ('\\1\\1'):rep(2000000))[1]",
        "return ('a'):find('[' .. ('%d'):rep(2000000) .. ']')",
        "return ('a'):find('%f[' .. ('%d'):rep(2000000) .. ']')",
        // Tables are counted whatever is in them: whether there is anything has to be looked up.
        "local e, t = {}, {} for i = 1, 100000 do t[i] = e end return #cmsgpack.pack(t)",
        // Few instructions, each of which takes long.
        "local s = ('x'):rep(65536) for i = 1, 30 do s:upper() s:lower() s:reverse() s:rep(1) end",
        "local s = '--' .. ('x'):rep(65536) for i = 1, 110 do loadstring(s) end",
        "local t = {} for i = 1, 9000 do t[i] = i end for i = 1, 110 do table.insert(t, 1, 0) end",
        "local t = {} for i = 1, 9000 do t[i] = i end for i = 1, 110 do table.remove(t, 1) end",
        "local t = {} for i = 1, 30000 do t[i] = 30000 - i end table.sort(t)",
        "local t = {} for i = 1, 30000 do t[i] = i end for i = 1, 10 do table.maxn(t) end",
        // A function of the machine is called again and again.
        "local t = {} for i = 1, 30000 do t[i] = i end for i = 1, 2 do table.sort(t, math.randomseed) end",
        "local t = {} for i = 1, 30000 do t[i] = i end for i = 1, 20 do table.foreach(t, math.randomseed) end",
        "local t = {} for i = 1, 30000 do t[i] = i end for i = 1, 20 do table.foreachi(t, math.randomseed) end",
    ] {
        assert_eq!(ended(source, Protocol::Resp2), "-ERR it was ended", "{source}");
    }
}

#[test]
fn what_needs_too_much_memory_or_too_many_steps_ends_and_what_fits_is_answered() {
    // In this world nothing else ends a script.
    let world: Arc<dyn World> = Arc::new(LeftOut::default());
    for source in TOO_LARGE {
        let script = Script::parse(source.as_bytes()).expect("a script");
        let ended = run_in_world(&mut Machine::new().expect("a machine"), script, Protocol::Resp2, &world);
        let error = ended.err().map(|error| String::from_utf8_lossy(error.text()).into_owned());
        assert_eq!(error.as_deref(), Some("ERR the script needs more than 64 MB of memory"), "{source}");
    }
    // A pattern that the script no longer uses does not count, be there ever so much that it uses.
    for source in [
        "for i = 1, 30 do for x in ('a'):gmatch(('.?'):rep(100000)) do end end return 'fits'",
        "local t = {} for i = 1, 200000 do t[i] = {} end \
         for i = 1, 20000 do for x in ('a'):gmatch('a') do end end return 'fits'",
    ] {
        let script = Script::parse(source.as_bytes()).expect("a script");
        let ended_well = run_in_world(&mut Machine::new().expect("a machine"), script, Protocol::Resp2, &world);
        assert_eq!(ended_well.expect("an answer").to_vec(), b"$4\r\nfits\r\n", "{source}");
    }
    for source in [
        "return ('a'):rep(200):find(('a*'):rep(60) .. 'b')",
        "return ('a'):rep(200):match(('a*'):rep(60) .. 'b')",
        "return ('a'):rep(200):gsub(('a*'):rep(60) .. 'b', '')",
        "return ('a'):rep(200):gsub(('a*'):rep(60) .. 'b', function() end)",
        "for x in ('a'):rep(200):gmatch(('a*'):rep(60) .. 'b') do end",
        "while true do pcall(string.find, ('a'):rep(200), ('a*'):rep(60) .. 'b') end",
    ] {
        assert_eq!(ended(source, Protocol::Resp2), "-ERR it was ended", "{source}");
    }
    for (source, part) in [
        ("return ('a'):rep(20000):find(('a?'):rep(20000)) and 'fits'", "fits"),
        ("return ('a'):rep(1000000):find(('a'):rep(500000) .. 'b', 1, true) or 'none'", "none"),
        ("return #(''):rep(2000000000)", ":0"),
        ("return #(''):rep('2000000000')", ":0"),
        ("return unpack({}, -2147483648, 0)", "too many results to unpack"),
        ("return unpack({}, '-2147483648', 2147483647)", "too many results to unpack"),
        ("return unpack({}, 1, 2147483647)", "too many results to unpack"),
        ("return unpack({}, 2147483648, 0)", "too many results to unpack"),
        ("return unpack({}, 0 / 0, 1)", "too many results to unpack"),
        ("return {unpack({1, 2, 3}, '2')}", "*2\r\n:2\r\n:3\r\n"),
        ("return {unpack({1, 2, 3}, 2, 2)}", "*1\r\n:2\r\n"),
        ("return {unpack({1, 2, 3}, nil, 2)}", "*2\r\n:1\r\n:2\r\n"),
        ("local t = {} for i = 1, 7999 do t[i] = 1 end return #{unpack(t)}", ":7999"),
        ("local t = {} for i = 1, 8000 do t[i] = 1 end return #{unpack(t)}", "too many results to unpack"),
        ("return table.insert({}, -2000000000, 1)", "out of bounds"),
        ("return table.insert({}, '-2000000000', 1)", "out of bounds"),
        ("return table.insert({}, 2 ^ 31, 1)", "out of bounds"),
        ("return table.insert({}, 0 / 0, 1)", "out of bounds"),
        ("local t = {1, 2, 3} return table.remove(t, '1') .. table.remove(t) .. #t", "131"),
        ("local t = {} for i=1,2e3 do t[i]=i end table.sort(t, function(a, b) return b < a end) return t[1]", ":2000"),
        ("return table.foreachi({4, 5}, function(i, value) return i == 2 and value or nil end)", ":5"),
        ("return table.foreach({a = 7}, function(name, value) return name .. value end)", "a7"),
        // Texts that are compared for as long as they are.
        ("local t = {} for i = 1, 9 do t[i] = ('x'):rep(2000) .. 9 - i end table.sort(t) return t[1]:sub(-2)", "x0"),
        ("local f; f = function() return 1 + f() end; return f()", "stack overflow"),
        ("local t = {}; t[1] = t; return t", "stack limit"),
        ("local t = {}; t[1] = t; return cjson.encode(t)", "excessive nesting (1001)"),
        ("return loadstring('\\27Lua')", "$-1"),
        ("return loadstring(string.char(27) .. 'Lua')", "$-1"),
    ] {
        let reply = ended(source, Protocol::Resp2);
        assert!(reply.contains(part), "{source}: {reply}");
    }
}

/// Each call takes long, and there are few of them.
#[test]
fn calls_with_a_long_text_are_checked_one_by_one() {
    for source in [
        "local s = (' '):rep(1048576) for i = 1, 9 do struct.size(s) end",
        "local s = (' '):rep(1048576) for i = 1, 9 do struct.pack(s) end",
        "local s = (' '):rep(1048576) for i = 1, 9 do struct.unpack(s, '') end",
        "local s = '\"' .. ('x'):rep(1048576) .. '\"' for i = 1, 9 do cjson.decode(s) end",
        "local s = cmsgpack.pack(('x'):rep(1048576)) for i = 1, 9 do cmsgpack.unpack(s) end",
        "local s = ('x'):rep(1048576) for i = 1, 9 do struct.unpack('c1048576', s) end",
        "local s = ('x'):rep(1048576) .. '\\0' for i = 1, 9 do struct.unpack('s', s) end",
        "local s = ('x'):rep(1048576) for i = 1, 9 do redis.sha1hex(s) end",
        "local s = ('x'):rep(1048576) for i = 1, 9 do redis.error_reply(s) end",
        "local s = ('x'):rep(1048576) for i = 1, 9 do s:find('y', 1, true) end",
        "local s = ('x'):rep(1048576) for i = 1, 9 do ('a'):gsub('^y', s) end",
        "local t = {('x'):rep(1048576)} for i = 1, 9 do table.concat(t) end",
        "local e = {err = '\\0' .. ('x'):rep(1048576)} return {e, e, e, e, e, e, e, e, e}",
        // Not a long text, but many short ones.
        "local t = {} for i = 1, 2000 do t[i] = 'x' end for i = 1, 9 do cmsgpack.pack(t) end",
    ] {
        let script = Script::parse(source.as_bytes()).expect("a script");
        // It ends at the sixth check; the first one is for the text.
        let world: Arc<dyn World> = Arc::new(Looks(AtomicU64::new(95)));
        let ended = run_in_world(&mut Machine::new().expect("a machine"), script, Protocol::Resp2, &world);
        let error = ended.err().map(|error| String::from_utf8_lossy(error.text()).into_owned());
        assert_eq!(error.as_deref(), Some("ERR it was ended"), "{source}");
    }
}

/// Ends a script without memory, as where it has little and is to run anew with more.
struct Elsewhere;

impl World for Elsewhere {
    fn may(&self, _: &[Vec<u8>]) -> Option<bool> {
        None
    }

    fn log(&self, _: u8, _: &[u8]) {}

    fn left_out(&self, _: &str, _: &Error) {}

    fn why_end(&self) -> Option<Error> {
        None
    }

    fn no_memory(&self) -> Option<Error> {
        Some(Error::new("ERR it runs elsewhere"))
    }
}

#[test]
fn a_script_without_memory_ends_as_its_world_says() {
    let mut machine = Machine::new().expect("a machine");
    let mut ended = |source: &str| {
        let script = Script::parse(source.as_bytes()).expect("a script");
        let what = What::Script(Arc::new(script));
        let run = Run { what, keys: Vec::new(), argv: Vec::new(), seed: 0, protocol: Protocol::Resp2 };
        let limits = Limits { memory_bytes: 512 << 10, ..LIMITS };
        let ended = machine.run(&run, limits, &mut Fake, &(Arc::new(Elsewhere) as Arc<dyn World>));
        ended.map_or_else(|error| error.text().to_vec(), |replies| replies.to_vec())
    };
    for source in [
        "redis.call('status') local s = string.rep('x', 1000000) return #s",
        "local t = {} for i = 1, 6 do t[i] = ('x'):rep(100000) end return #table.concat(t)",
        "local s = ('x'):rep(1000) while true do s = s .. s end",
        "return pcall(string.rep, 'x', 1000000)",
        "local s, t = ('x'):rep(100000), {} for i = 1, 10 do t[i] = s end \
         return xpcall(function() return cmsgpack.pack(t) end, function() return 1 end)",
        "local f = coroutine.wrap(function() return ('x'):rep(1000000) end) return f()",
        "return pcall(coroutine.wrap(function() return coroutine.wrap(function() return ('x'):rep(1000000) end)() end))",
    ] {
        assert_eq!(String::from_utf8_lossy(&ended(source)), "ERR it runs elsewhere", "{source}");
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

/// Whatever a script tries to leave behind, the next one in the same machine does not find it.
#[test]
fn nothing_of_a_script_is_met_by_the_next_one() {
    let mut machine = Machine::new().expect("a machine");
    for left in [
        "KEYS[1] = 'mine'; ARGV.x = 'mine'; return KEYS[1]",
        "pcall(function() leak = 1 end); pcall(rawset, _G, 'leak', 1)",
        "local m = getmetatable('') if m then m.leak = 1; m.__index = nil end",
        "for _, t in ipairs({_G, redis, string, table, math, cjson, bit, cmsgpack, coroutine}) do\n\
         local m = getmetatable(t) if m then m.leak = 1 end pcall(setmetatable, t, {}) pcall(rawset, t, 'leak', 1)\n\
         pcall(function() t.leak = 1 end) end",
        "redis.setresp(3); math.randomseed(7)",
        "local s = ('x'); pcall(function() s.leak = 1 end)",
        "pcall(table.insert, _G, 'mine') pcall(table.insert, string, 1, 'mine')",
        "error({err = 'left'})",
        "while true do end",
        "local t = {} while true do t[#t + 1] = ('x'):rep(1000000) .. #t end",
        "coroutine.wrap(function() coroutine.yield(1) end)()",
        "cjson.encode_number_precision(1)",
    ] {
        ended_in(&mut machine, left, Protocol::Resp2);
        let finds = "return {KEYS[1], tostring(ARGV.x), tostring(rawget(_G, 'leak')), tostring(rawget(string, 'leak')),\
                     #_G, #string,\
                     tostring(('x').leak), ('x'):rep(2), math.random(1000), tostring(getmetatable('')), cjson.encode(1.23)}";
        let fresh = ended(finds, Protocol::Resp2);
        assert_eq!(ended_in(&mut machine, finds, Protocol::Resp2), fresh, "{left}");
        assert_eq!(ended_in(&mut machine, "return redis.call('map')", Protocol::Resp3), "*2\r\n+a\r\n$3\r\n1.5\r\n");
    }
    machine.collect();
    assert!(machine.is_small(), "what was large is given back");
}
