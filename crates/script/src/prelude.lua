-- Makes the world that a script sees. It is given the functions of the machine, and gives the one that runs scripts.
local machine = ...
local error, type, tostring, select, unpack, next = error, type, tostring, select, unpack, next
local rawget, rawset, setmetatable, getmetatable, setfenv = rawget, rawset, setmetatable, getmetatable, setfenv
local lua_pcall, lua_xpcall, lua_loadstring = pcall, xpcall, loadstring

local READONLY = "Attempt to modify a readonly table"

-- What may not be written to, by its proxy.
local is_protected = {}

local function protect(table, missing)
    local proxy = {}
    is_protected[proxy] = true
    return setmetatable(proxy, {
        __index = missing and function(_, name)
            local value = rawget(table, name)
            if value == nil then
                missing(name)
            end
            return value
        end or table,
        __newindex = function()
            error(READONLY, 2)
        end,
        __metatable = {},
    })
end

-- Whoever catches the error of a command gets its text. That the script has to end nobody catches.
local function caught(is_done, ...)
    if not is_done and machine.has_to_end() then
        error("the script was ended", 0)
    end
    if is_done then
        return true, ...
    end
    local message = machine.text_of((...))
    if type(message) == "table" and type(message.err) == "string" then
        message = message.err
    end
    return false, message
end

local coroutine_of_script = {}
for name, value in next, coroutine do
    coroutine_of_script[name] = value
end

function coroutine_of_script.resume(...)
    return caught(coroutine.resume(...))
end

local world = {
    _VERSION = _VERSION,
    assert = assert,
    bit = protect(machine.bit),
    cjson = protect({
        encode = machine.json_encode,
        decode = machine.json_decode,
        null = machine.json_null,
        _NAME = "cjson",
        _VERSION = "2.1.0",
    }),
    cmsgpack = protect(machine.msgpack),
    collectgarbage = function(what)
        return what == "count" and collectgarbage("count") or 0
    end,
    coroutine = protect(coroutine_of_script),
    error = error,
    gcinfo = gcinfo,
    getmetatable = getmetatable,
    ipairs = ipairs,
    next = next,
    pairs = pairs,
    rawequal = rawequal,
    rawget = rawget,
    redis = protect(machine.redis),
    select = select,
    string = protect(string),
    table = protect(table),
    tonumber = tonumber,
    tostring = tostring,
    type = type,
    unpack = unpack,
    KEYS = machine.keys,
    ARGV = machine.argv,
}

local math_of_script = {}
for name, value in next, math do
    math_of_script[name] = value
end
math_of_script.random = machine.random
math_of_script.randomseed = machine.randomseed
world.math = protect(math_of_script)

string.dump = nil

function world.pcall(...)
    return caught(lua_pcall(...))
end

function world.xpcall(...)
    return caught(lua_xpcall(...))
end

function world.rawset(table, name, value)
    if is_protected[table] then
        error(READONLY, 0)
    end
    return rawset(table, name, value)
end

function world.setmetatable(table, meta)
    if is_protected[table] then
        error(READONLY, 0)
    end
    return setmetatable(table, meta)
end

local globals = protect(world, function(name)
    error("Script attempted to access nonexistent global variable '" .. tostring(name) .. "'", 3)
end)
world._G = globals

local function compiled(text, name)
    if type(text) ~= "string" then
        return nil, "a string is expected"
    end
    -- What is compiled already could be anything.
    if text:byte(1) == 27 then
        return nil, "attempt to load bytecode"
    end
    local chunk, message = lua_loadstring(text, name)
    if chunk then
        setfenv(chunk, globals)
    end
    return chunk, message
end

world.loadstring = compiled

function world.load(reader, name)
    local pieces = {}
    while true do
        local piece = reader()
        if piece == nil or piece == "" then
            break
        end
        pieces[#pieces + 1] = piece
    end
    return compiled(table.concat(pieces), name)
end

local function failed(message)
    if type(message) ~= "table" then
        local text = tostring(machine.text_of(message))
        -- The error of a command has its code already.
        local has_code = type(message) == "userdata" and text:find("^%u+ ")
        message = { err = has_code and text or "ERR " .. text }
    end
    return { err = message.err, line = machine.line() }
end

-- Whether the script has ended well, and what it gives or why not.
return function(source)
    local chunk, message = compiled(source, "@user_script")
    if not chunk then
        return "uncompiled", message
    end
    local is_done, value = lua_xpcall(chunk, failed)
    return is_done and "done" or "failed", value
end
