//! Libraries of functions: what they register, and what becomes of one that cannot be loaded.

use super::*;

#[test]
fn libraries_register_functions() {
    let mut machine = Machine::new().expect("a machine");
    let world: Arc<dyn World> = Arc::new(Looks(AtomicU64::new(0)));
    let mut load = |body: &str| {
        let code = format!("#!lua name=x\n{body}");
        machine
            .load(code.as_bytes(), LIMITS, &world)
            .map_err(|error| String::from_utf8_lossy(error.text()).into_owned())
    };
    let text = "redis.register_function('f', function(keys, args) return {keys[1], args[1]} end)\n\
                redis.register_function{function_name = 'g', callback = function() error('oops') end, flags = {'no-writes'}}";
    let text = format!(
        "{text}\nlocal lib = redis\n\
                        redis.register_function('k', function() lib.register_function('l', function() end) end)\n\
                        redis.register_function('m', function() return math.floor(1.5) + #redis.sha1hex('') end)\n\
                        redis.register_function('n', function() rawset(lib, 'x', 1) end)"
    );
    let library = load(&text).expect("a library");
    let names: Vec<(&str, u8)> = library.functions.iter().map(|one| (&one.name[..], one.flags)).collect();
    assert_eq!((&library.name[..], names), ("x", vec![("f", 0), ("g", 1), ("k", 0), ("m", 0), ("n", 0)]));
    for (body, why) in [
        ("return 1", "No functions registered"),
        ("syntax error", "Error compiling function: user_function:2: '=' expected near 'error'"),
        ("redis.register_function('a b', function() end)", "Library names can only contain"),
        ("redis.register_function('a', 1)", "second argument to redis.register_function must be a function"),
        (
            "redis.register_function{function_name = 'a', callback = function() end, flags = {'x'}}",
            "unknown flag given",
        ),
        ("redis.register_function{1}", "unknown argument given"),
        ("redis.register_function{[true] = 1}", "is not a string"),
        ("x = 1", "Attempt to modify a readonly table"),
        ("while true do end", "it was ended"),
        ("redis.call('status')", "attempted to access nonexistent global variable 'call'"),
        ("redis.setresp(3)", "attempted to access nonexistent global variable 'setresp'"),
        ("return math.random()", "attempted to access nonexistent global variable 'math'"),
        ("mt = getmetatable(_G)", "attempted to access nonexistent global variable 'getmetatable'"),
        ("redis.x = 1", "Attempt to modify a readonly table"),
    ] {
        let error = load(body).expect_err(body);
        assert!(error.contains(why), "{body}: {error}");
    }
    let mut all = Libraries::default();
    all.add(library, false).expect("room");
    all.version = 1;
    let all = Arc::new(all);
    let mut call = |name: &str| {
        let words = |word: &str| vec![word.as_bytes().to_vec()];
        let what = What::Function(Arc::clone(&all), name.to_owned());
        let run = Run { what, keys: words("k"), argv: words("a"), seed: 0, protocol: Protocol::Resp2 };
        let world: Arc<dyn World> = Arc::new(Looks(AtomicU64::new(0)));
        let ended = machine.run(&run, LIMITS, &mut Fake, &world);
        ended.map_or_else(|error| error.text().to_vec(), |replies| replies.to_vec())
    };
    assert_eq!(call("f"), b"*2\r\n$1\r\nk\r\n$1\r\na\r\n");
    assert_eq!(call("g"), b"-ERR user_function:3: oops script: g, on @user_function:3.\r\n");
    assert_eq!(call("h"), b"ERR Function not found");
    assert!(call("k").starts_with(b"-ERR redis.register_function can only be called on FUNCTION LOAD command"));
    assert_eq!(call("m"), b":41\r\n", "what is registered sees all of Lua");
    assert!(call("n").starts_with(b"-ERR Attempt to modify a readonly table"));
    assert_eq!(told("return tostring(redis.register_function)"), "$3 nil");
}

#[test]
fn what_a_library_registers_is_bounded() {
    let mut machine = Machine::new().expect("a machine");
    let world: Arc<dyn World> = Arc::new(LeftOut::default());
    // The second one may have as much as the first.
    for (count, is_fine) in [(3, true), (3, true), (4, false), (3, true)] {
        let code = format!(
            "#!lua name=x\nlocal text = ('x'):rep(300000)\nfor i = 1, {count} do\n\
             redis.register_function{{function_name = 'f' .. i, callback = function() end, description = text}} end"
        );
        let loaded = machine.load(code.as_bytes(), LIMITS, &world);
        let error = loaded.err().map(|error| String::from_utf8_lossy(error.text()).into_owned()).unwrap_or_default();
        assert_eq!(error.contains("more than 1 MB"), !is_fine, "{count}: {error}");
        assert_eq!(error.is_empty(), is_fine, "{count}: {error}");
    }
}

#[test]
fn a_stored_library_that_cannot_be_loaded_is_left_out_alone() {
    let mut all = Libraries::default();
    for (name, function, body) in [
        ("a", "f", "redis.register_function('f', function() return 1 end)"),
        ("b", "g", "local up = string.upper('x')\nredis.register_function('g', function() return up end)"),
        ("c", "h", "redis.register_function('h', function() return 2 end)"),
    ] {
        let declared = Declared { name: function.to_owned(), description: None, flags: 0 };
        let code = format!("#!lua name={name}\n{body}").into_bytes();
        all.add(Library { name: name.to_owned(), code, functions: vec![declared] }, false).expect("room");
    }
    all.version = 1;
    let (all, noted) = (Arc::new(all), Arc::new(LeftOut::default()));
    let mut machine = Machine::new().expect("a machine");
    let mut call = |name: &str| {
        let what = What::Function(Arc::clone(&all), name.to_owned());
        let run = Run { what, keys: Vec::new(), argv: Vec::new(), seed: 0, protocol: Protocol::Resp2 };
        let ended = machine.run(&run, LIMITS, &mut Fake, &(Arc::clone(&noted) as Arc<dyn World>));
        ended.map_or_else(|error| error.text().to_vec(), |replies| replies.to_vec())
    };
    assert_eq!(call("f"), b":1\r\n");
    assert_eq!(call("h"), b":2\r\n");
    let told = String::from_utf8(call("g")).expect("text");
    assert!(told.starts_with("ERR Library 'b' has to be loaded anew (FUNCTION LOAD REPLACE): "), "{told}");
    assert!(told.contains("nonexistent global variable 'string'"), "{told}");
    let noted = noted.0.lock();
    assert!(noted.len() == 1 && noted[0].starts_with("b: ERR Error registering functions"), "{noted:?}");
}
