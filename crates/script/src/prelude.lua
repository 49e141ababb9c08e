-- Builds the world that all scripts see, one after the other. Everything that a script could change for the next script
-- is read-only. This chunk takes the functions of the machine as its argument. It returns three functions: one that
-- compiles scripts, one that runs them, and one that loads libraries.
local machine = ...
local error, type, tostring, select, unpack, next = error, type, tostring, select, unpack, next
local rawget, rawset, setmetatable, getmetatable, setfenv = rawget, rawset, setmetatable, getmetatable, setfenv
local tonumber = tonumber
local lua_pcall, lua_xpcall, lua_loadstring = pcall, xpcall, loadstring

local READONLY = "Attempt to modify a readonly table"
local NO_MEMORY = "not enough memory"

-- Whether the text of an error says that memory ran out. `coroutine.wrap` puts its caller's line in front of the text.
local function is_no_memory(text)
    while type(text) == "string" and text ~= NO_MEMORY do
        text = machine.match(text, "^user_%a+:%d+: (.*" .. NO_MEMORY .. ")$")
    end
    return text == NO_MEMORY
end

-- The tables that may not be written to, by the proxies that scripts have in their place.
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

-- A read-only table with the fields of the table that `current` returns. Reading any other field is an error.
local function strict(table, current)
    return readonly(table, function(_, name)
        local value = rawget(current(), name)
        if value == nil then
            error("Script attempted to access nonexistent global variable '" .. tostring(name) .. "'", 2)
        end
        return value
    end)
end

-- What a script gets that catches an error: with `gives_text`, the text of an error that is a table with a text in it.
-- It cannot catch the order to end.
local function caught(gives_text, is_done, ...)
    if is_done then
        return true, ...
    end
    local message = machine.value_of((...))
    if machine.has_to_end() or is_no_memory(message) and machine.has_to_end_without_memory() then
        error("the script was ended", 0)
    end
    if gives_text and type(message) == "table" and type(message.err) == "string" then
        message = message.err
    end
    return false, message
end

-- A call of one of Lua's own functions is a single instruction, however long it takes. So with each call that takes as
-- long as going through this many bytes, it is checked whether the script has to end.
local LONG = 2 ^ 16
-- What an element counts as that moves in its list, in bytes.
local MOVED = 8

local function look(bytes)
    if bytes >= LONG and machine.has_to_end() then
        error("the script was ended", 0)
    end
end

local coroutine_of_script = {}
for name, value in next, coroutine do
    coroutine_of_script[name] = value
end

local create, wrap = coroutine.create, coroutine.wrap

-- A new coroutine begins to count instructions anew: a script that made one after the other would never be checked.
function coroutine_of_script.create(body)
    look(LONG)
    return create(body)
end

function coroutine_of_script.wrap(body)
    look(LONG)
    return wrap(body)
end

function coroutine_of_script.resume(...)
    return caught(false, coroutine.resume(...))
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
}

local math_of_script = {}
for name, value in next, math do
    math_of_script[name] = value
end
math_of_script.random = machine.random
math_of_script.randomseed = machine.randomseed
world.math = protect(math_of_script)

-- Unlike Lua's own functions, these can be interrupted, and do not fill the thread's stack.
string.find, string.match, string.gmatch, string.gfind = machine.find, machine.match, machine.gmatch, machine.gmatch

local machine_gsub, matches, concat, sub = machine.gsub, machine.matches, table.concat, string.sub

-- The text that takes the place of a match: the result of `replacement`, or the match itself if there is no result.
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

local function looked(text)
    look(#text)
    return text
end

local lower, rep, reverse, upper = string.lower, string.rep, string.reverse, string.upper

function string.lower(text)
    return looked(lower(text))
end

function string.reverse(text)
    return looked(reverse(text))
end

function string.upper(text)
    return looked(upper(text))
end

function string.rep(text, count)
    -- The empty text can be repeated any number of times.
    if text == "" and tonumber(count) then
        return ""
    end
    return looked(rep(text, count))
end

local foreach, foreachi, insert, remove, sort = table.foreach, table.foreachi, table.insert, table.remove, table.sort
local maxn = table.maxn

function table.concat(list, separator, first, last)
    local text = concat(list, separator, first, last)
    look(#text + MOVED * ((last or #list) - (first or 1)))
    return text
end

function table.maxn(list)
    if type(list) ~= "table" then
        return maxn(list)
    end
    local most = 0
    for key in next, list do
        if type(key) == "number" and key > most then
            most = key
        end
    end
    return most
end

-- Lua's own functions call others without an instruction in between. What this gives makes some, at which a script can
-- be interrupted.
local function interruptible(call)
    if type(call) ~= "function" then
        return call
    end
    return function(...)
        return call(...)
    end
end

function table.foreach(list, visit)
    return foreach(list, interruptible(visit))
end

function table.foreachi(list, visit)
    return foreachi(list, interruptible(visit))
end

function table.insert(...)
    local list, at = ...
    if behind[list] then
        error(READONLY, 0)
    end
    at = select("#", ...) == 3 and type(list) == "table" and tonumber(at)
    if at then
        -- Lua would count from such a place to the end of the list, or take it for another one.
        if not (at >= -1000 and at < 2 ^ 31) then
            error("bad argument #2 to 'insert' (position out of bounds)", 2)
        end
        look(MOVED * (#list - at))
    end
    return insert(...)
end

function table.remove(...)
    local list, at = ...
    if at and type(list) == "table" then
        look(MOVED * #list)
    end
    return remove(...)
end

-- The order of Lua itself, by instructions.
local function less(a, b)
    return a < b
end

-- Whether sorting `list` takes long, because it has many elements or long texts.
local function is_long(list)
    if #list > 1000 then
        return true
    end
    for index = 1, #list do
        local value = rawget(list, index)
        if type(value) == "string" and #value > 1000 then
            return true
        end
    end
    return false
end

function table.sort(list, before)
    if type(list) == "table" and is_long(list) then
        before = before == nil and less or interruptible(before)
    end
    return sort(list, before)
end

-- All texts share one metatable, so a script that changed it would change it for every later script.
getmetatable("").__index = world.string
getmetatable("").__metatable = false

-- As in Redis, `pcall` gives the text of a command's error, and others give the table.
function world.pcall(...)
    return caught(true, lua_pcall(...))
end

-- The handler gets what Redis gives it, and not the error of the machine itself: that has a traceback which the
-- machine's limit of memory does not see, and a script could keep any number of them.
function world.xpcall(...)
    local body, handler = ...
    if select("#", ...) < 2 then
        error("bad argument #2 to 'xpcall' (value expected)", 2)
    end
    return caught(false, lua_xpcall(body, function(message)
        message = machine.value_of(message)
        -- What the handler returns does not tell it.
        if is_no_memory(message) then
            machine.has_to_end_without_memory()
        end
        return handler(message)
    end))
end

-- Whether `place` is no number, or one that leaves room to count from one such place to another.
local function is_near(place)
    local number = tonumber(place)
    return not number or number > -2 ^ 29 and number < 2 ^ 29
end

-- Lua counts the elements with a number of 32 bits, and does not notice in all builds that it is too small.
function world.unpack(list, first, last)
    if (first or last) and not (is_near(first) and is_near(last)) then
        error("too many results to unpack", 2)
    end
    -- The stack of the call has 8,000 places, for what is passed and for what is returned.
    if last ~= nil then
        return unpack(list, first, last)
    elseif first ~= nil then
        return unpack(list, first)
    end
    return unpack(list)
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

-- What a library sees while it is being loaded. The functions that it registers see `world`.
local world_of_library = {
    redis = strict(machine.redis_of_library, function()
        return machine.redis_of_library
    end),
}

-- The table that the globals are read from at the moment: `world`, or `world_of_library`.
local visible = world

local globals = strict(world, function()
    return visible
end)
world._G = globals

-- As in Redis, a script sees that the globals have a metatable, which is read-only. The metatables of other protected
-- tables are hidden.
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
    -- Bytecode cannot be checked: it could do anything.
    if text:byte(1) == 27 then
        return nil, "attempt to load bytecode"
    end
    local chunk, message = lua_loadstring(text, name)
    look(#text)
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

-- Turns an error into what the machine expects. If Lua itself has no memory, it does not call this, and the machine
-- gets the plain text. So this returns the same plain text if a function of the machine had no memory.
local function failed(message)
    message = machine.value_of(message)
    if type(message) ~= "table" then
        local text = tostring(message)
        if is_no_memory(text) then
            return NO_MEMORY
        end
        message = { err = "ERR " .. text }
    end
    return { err = message.err, line = machine.line() }
end

-- Returns whether the script or function succeeded, and then its result or its error.
local function run(chunk, keys, argv, is_function)
    -- A library that was ended while it was being loaded may have left `world_of_library` here.
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

-- Returns whether the library has registered its functions, and otherwise the error.
local function load_library(chunk)
    visible = world_of_library
    local is_done, value = lua_xpcall(chunk, failed)
    visible = world
    return is_done, value
end

return compiled, run, load_library
