-- Makes the world that scripts see, one after the other: what one of them could change and the next one would meet is
-- read-only. It is given the functions of the machine, and gives the one that compiles scripts, the one that runs them
-- and the one that loads libraries.
local machine = ...
local error, type, tostring, select, unpack, next = error, type, tostring, select, unpack, next
local rawget, rawset, setmetatable, getmetatable, setfenv = rawget, rawset, setmetatable, getmetatable, setfenv
local lua_pcall, lua_xpcall, lua_loadstring = pcall, xpcall, loadstring

local READONLY = "Attempt to modify a readonly table"
local NO_MEMORY = "not enough memory"

-- Whether the text of an error says that there was no memory. `coroutine.wrap` puts the line of its caller in front.
local function is_no_memory(text)
    while type(text) == "string" and text ~= NO_MEMORY do
        text = machine.match(text, "^user_%a+:%d+: (.*" .. NO_MEMORY .. ")$")
    end
    return text == NO_MEMORY
end

-- What may not be written to, by what scripts have in its place.
local behind = {}

local function readonly(table, index)
    local proxy = {}
    behind[proxy] = table
    return setmetatable(proxy, {
        __index = index,
        __newindex = function()
            error(READONLY, 2)
        end,
        __metatable = false,
    })
end

local function protect(table)
    return readonly(table, table)
end

-- One whose fields are those of the table that `current` gives; to ask for any other is an error.
local function strict(table, current)
    return readonly(table, function(_, name)
        local value = rawget(current(), name)
        if value == nil then
            error("Script attempted to access nonexistent global variable '" .. tostring(name) .. "'", 2)
        end
        return value
    end)
end

-- Whoever catches the error of a command gets its text. That the script has to end nobody catches.
local function caught(is_done, ...)
    if is_done then
        return true, ...
    end
    local message = machine.text_of((...))
    if machine.has_to_end() or is_no_memory(message) and machine.has_to_end_without_memory() then
        error("the script was ended", 0)
    end
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
    cjson = protect(machine.json),
    cmsgpack = protect(machine.msgpack),
    collectgarbage = function(what)
        return what == "count" and collectgarbage("count") or 0
    end,
    coroutine = protect(coroutine_of_script),
    error = error,
    gcinfo = gcinfo,
    ipairs = ipairs,
    next = next,
    pairs = pairs,
    rawequal = rawequal,
    redis = protect(machine.redis),
    select = select,
    struct = protect(machine.struct),
    string = protect(string),
    table = protect(table),
    tonumber = tonumber,
    tostring = tostring,
    type = type,
    unpack = unpack,
}

local math_of_script = {}
for name, value in next, math do
    math_of_script[name] = value
end
math_of_script.random = machine.random
math_of_script.randomseed = machine.randomseed
world.math = protect(math_of_script)

-- What can be interrupted, and fills no stack.
string.find, string.match, string.gmatch, string.gfind = machine.find, machine.match, machine.gmatch, machine.gmatch

local machine_gsub, matches, concat, sub = machine.gsub, machine.matches, table.concat, string.sub

-- What stands for a match: what `replacement` gives, or the match where that is nothing.
local function replaced(text, replacement, first, last, ...)
    local value = replacement(...)
    if not value then
        return sub(text, first, last)
    end
    local kind = type(value)
    if kind ~= "string" and kind ~= "number" then
        error("invalid replacement value (a " .. kind .. ")", 0)
    end
    return value
end

function string.gsub(text, pattern, replacement, most)
    if type(replacement) ~= "function" then
        return machine_gsub(text, pattern, replacement, most)
    end
    local next_match, pieces, count, copied = matches(text, pattern), {}, 0, 0
    text, most = tostring(text), most and tonumber(most) or 1 / 0
    local function add(first, last, ...)
        if not first then
            return false
        end
        count = count + 1
        pieces[#pieces + 1] = sub(text, copied + 1, first - 1)
        pieces[#pieces + 1] = replaced(text, replacement, first, last, ...)
        copied = last
        return true
    end
    while count < most and add(next_match()) do
    end
    pieces[#pieces + 1] = sub(text, copied + 1)
    return concat(pieces), count
end

local rep, insert = string.rep, table.insert

function string.rep(text, count)
    -- Nothing, as often as one likes.
    if text == "" and type(count) == "number" then
        return ""
    end
    return rep(text, count)
end

function table.insert(...)
    local list, at = ...
    if select("#", ...) == 3 and type(list) == "table" and type(at) == "number" and at < -1000 then
        error("bad argument #2 to 'insert' (position out of bounds)", 2)
    end
    return insert(...)
end

-- All texts have one: what hangs on it every script would meet.
getmetatable("").__index = world.string
getmetatable("").__metatable = false

function world.pcall(...)
    return caught(lua_pcall(...))
end

function world.xpcall(...)
    return caught(lua_xpcall(...))
end

function world.rawget(table, name)
    return rawget(behind[table] or table, name)
end


function world.rawset(table, name, value)
    if behind[table] then
        error(READONLY, 0)
    end
    return rawset(table, name, value)
end

function world.setmetatable(table, meta)
    if behind[table] then
        error(READONLY, 0)
    end
    return setmetatable(table, meta)
end

-- What a library sees while it is loaded. The functions that it registers see the world.
local world_of_library = {
    redis = strict(machine.redis_of_library, function()
        return machine.redis_of_library
    end),
}

-- What the globals are at the moment.
local visible = world

local globals = strict(world, function()
    return visible
end)
world._G = globals

-- Redis shows that the globals have a metatable, which is read-only; what else is protected has none that a script
-- may see.
local sealed = protect({})

function world.getmetatable(value)
    if value == globals then
        return sealed
    end
    return getmetatable(value) or nil
end

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

-- Lua does not call this if it has no memory itself: then the text is what the machine gets. It gets the same if a
-- function of the machine had none.
local function failed(message)
    if type(message) ~= "table" then
        local text = tostring(machine.text_of(message))
        if is_no_memory(text) then
            return NO_MEMORY
        end
        -- The error of a command has its code already.
        local has_code = type(message) == "userdata" and text:find("^%u+ ")
        message = { err = has_code and text or "ERR " .. text }
    end
    return { err = message.err, line = machine.line() }
end

-- Whether the script or function has ended well, and what it gives or why not.
local function run(chunk, keys, argv, is_function)
    -- A library that had to end may have left its own here.
    visible = world
    if is_function then
        return lua_xpcall(function()
            return chunk(keys, argv)
        end, failed)
    end
    world.KEYS, world.ARGV = keys, argv
    local is_done, value = lua_xpcall(chunk, failed)
    world.KEYS, world.ARGV = nil, nil
    return is_done, value
end

-- Whether the library has registered its functions, or why not.
local function load_library(chunk)
    visible = world_of_library
    local is_done, value = lua_xpcall(chunk, failed)
    visible = world
    return is_done, value
end

return compiled, run, load_library
