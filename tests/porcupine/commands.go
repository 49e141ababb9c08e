// The commands of the model.
package main

import (
	"math"
	"strconv"
	"strings"
)

const (
	ok           = "+OK\r\n"
	null         = "$-1\r\n"
	syntax       = "-ERR syntax error\r\n"
	notAnInteger = "-ERR value is not an integer or out of range\r\n"
	noSuchKey    = "-ERR no such key\r\n"
	offset       = "-ERR offset is out of range\r\n"
	bitOffset    = "-ERR bit offset is not an integer or out of range\r\n"
	notABit      = "-ERR bit is not an integer or out of range\r\n"
	overflow     = "-ERR increment or decrement would overflow\r\n"
	decrOverflow = "-ERR decrement would overflow\r\n"
	// Longest value that SETRANGE and SETBIT may make, in bytes: far above what is drawn.
	reachMax = 64 << 10
)

func bulk(value string) string   { return "$" + strconv.Itoa(len(value)) + "\r\n" + value + "\r\n" }
func number(n int64) string      { return ":" + strconv.FormatInt(n, 10) + "\r\n" }
func badExpire(of string) string { return "-ERR invalid expire time in '" + of + "' command\r\n" }

func truth(is bool) string {
	if is {
		return number(1)
	}
	return number(0)
}

func found(r row, exists bool) string {
	if exists {
		return bulk(r.value)
	}
	return null
}

// integer reads a whole number as Redis does: no plus, no space, no zero in front.
func integer(word string) (int64, bool) {
	n, err := strconv.ParseInt(word, 10, 64)
	return n, err == nil && strconv.FormatInt(n, 10) == word
}

type command struct {
	// Words, the name included.
	least, most int
	run         func(s *step) string
}

const many = math.MaxInt

var commands = map[string]command{
	"get":    {2, 2, func(s *step) string { return found(s.get(s.args[1])) }},
	"set":    {3, many, set},
	"setex":  {4, 4, func(s *step) string { return setExpiring(s, 1000, "setex") }},
	"psetex": {4, 4, func(s *step) string { return setExpiring(s, 1, "psetex") }},
	"setnx": {3, 3, func(s *step) string {
		_, exists := s.get(s.args[1])
		if !exists {
			s.put(s.args[1], row{value: s.args[2]})
		}
		return truth(!exists)
	}},
	"getset": {3, 3, func(s *step) string {
		old, exists := s.get(s.args[1])
		s.put(s.args[1], row{value: s.args[2]})
		return found(old, exists)
	}},
	"getdel": {2, 2, func(s *step) string {
		old, exists := s.get(s.args[1])
		if exists {
			s.remove(s.args[1])
		}
		return found(old, exists)
	}},
	"getex": {2, many, getex},
	// Of one key: a dump has the others split.
	"mget": {2, 2, func(s *step) string { return "*1\r\n" + found(s.get(s.args[1])) }},
	"mset": {3, many, func(s *step) string {
		if len(s.args)%2 == 0 {
			return "-ERR wrong number of arguments for 'mset' command\r\n"
		}
		s.putPairs()
		return ok
	}},
	"msetnx": {3, many, func(s *step) string {
		if len(s.args)%2 == 0 {
			return "-ERR wrong number of arguments for 'msetnx' command\r\n"
		}
		for i := 1; i < len(s.args); i += 2 {
			if _, exists := s.get(s.args[i]); exists {
				return number(0)
			}
		}
		s.putPairs()
		return number(1)
	}},

	"strlen": {2, 2, func(s *step) string {
		r, _ := s.get(s.args[1])
		return number(int64(len(r.value)))
	}},
	"append": {3, 3, func(s *step) string {
		r, _ := s.get(s.args[1])
		r.value += s.args[2]
		s.put(s.args[1], r)
		return number(int64(len(r.value)))
	}},
	"getrange": {4, 4, getRange},
	"substr":   {4, 4, getRange},
	"setrange": {4, 4, setRange},
	"getbit":   {3, 3, getBit},
	"setbit":   {4, 4, setBit},

	"incr":   {2, 2, func(s *step) string { return s.add(1) }},
	"decr":   {2, 2, func(s *step) string { return s.add(-1) }},
	"incrby": {3, 3, func(s *step) string { return by(s, false) }},
	"decrby": {3, 3, func(s *step) string { return by(s, true) }},

	"del":    {2, many, del},
	"unlink": {2, many, del},
	// Of one key: what is told of several is not told of one moment, and not in a dump.
	"exists": {2, 2, exists},
	"touch":  {2, 2, exists},
	"type": {2, 2, func(s *step) string {
		if _, exists := s.get(s.args[1]); exists {
			return "+string\r\n"
		}
		return "+none\r\n"
	}},
	"rename":   {3, 3, func(s *step) string { return rename(s, false) }},
	"renamenx": {3, 3, func(s *step) string { return rename(s, true) }},

	"expire":    {3, 3, func(s *step) string { return expire(s, 1000, s.now, "expire") }},
	"pexpire":   {3, 3, func(s *step) string { return expire(s, 1, s.now, "pexpire") }},
	"expireat":  {3, 3, func(s *step) string { return expire(s, 1000, 0, "expireat") }},
	"pexpireat": {3, 3, func(s *step) string { return expire(s, 1, 0, "pexpireat") }},
	"persist": {2, 2, func(s *step) string {
		r, exists := s.get(s.args[1])
		if !exists || r.expire == 0 {
			return number(0)
		}
		s.put(s.args[1], row{value: r.value})
		return number(1)
	}},
	"ttl":         {2, 2, func(s *step) string { return s.time(func(at int64) int64 { return (at - s.now + 500) / 1000 }) }},
	"pttl":        {2, 2, func(s *step) string { return s.time(func(at int64) int64 { return at - s.now }) }},
	"expiretime":  {2, 2, func(s *step) string { return s.time(func(at int64) int64 { return (at + 500) / 1000 }) }},
	"pexpiretime": {2, 2, func(s *step) string { return s.time(func(at int64) int64 { return at }) }},
}

func (s *step) putPairs() {
	for i := 1; i+1 < len(s.args); i += 2 {
		s.put(s.args[i], row{value: s.args[i+1]})
	}
}

// after gives the moment that is `word` times `unit` milliseconds behind `from`.
func after(word string, unit, from int64) (at int64, isInteger, fits bool) {
	n, isInteger := integer(word)
	if !isInteger {
		return 0, false, false
	}
	if n > (math.MaxInt64-from)/unit || n < math.MinInt64/unit {
		return 0, true, false
	}
	return n*unit + from, true, true
}

// until reads the time of an option, which must be above zero: as a moment, or as an error.
func until(s *step, word string, unit int64, of string) (int64, string) {
	at, isInteger, fits := after(word, unit, s.now)
	if !isInteger {
		return 0, notAnInteger
	}
	if n, _ := integer(word); n <= 0 || !fits {
		return 0, badExpire(of)
	}
	return at, ""
}

func set(s *step) string {
	var nx, xx, get, keep bool
	var at int64
	for i := 3; i < len(s.args); i++ {
		switch word := strings.ToUpper(s.args[i]); {
		case word == "NX" && !xx:
			nx = true
		case word == "XX" && !nx:
			xx = true
		case word == "GET":
			get = true
		case word == "KEEPTTL" && at == 0:
			keep = true
		case word == "EX" && !keep && at == 0 && i+1 < len(s.args):
			i++
			var failed string
			if at, failed = until(s, s.args[i], 1000, "set"); failed != "" {
				return failed
			}
		default:
			return syntax
		}
	}
	old, exists := s.get(s.args[1])
	write := !(nx && exists || xx && !exists)
	if write {
		r := row{s.args[2], at}
		if keep {
			r.expire = old.expire
		}
		s.put(s.args[1], r)
	}
	switch {
	case get:
		return found(old, exists)
	case write:
		return ok
	}
	return null
}

func setExpiring(s *step, unit int64, of string) string {
	at, failed := until(s, s.args[2], unit, of)
	if failed != "" {
		return failed
	}
	s.put(s.args[1], row{s.args[3], at})
	return ok
}

func getex(s *step) string {
	r, exists := s.get(s.args[1])
	switch {
	case len(s.args) == 2:
	case len(s.args) == 3 && strings.EqualFold(s.args[2], "PERSIST"):
		if exists {
			s.put(s.args[1], row{value: r.value})
		}
	case len(s.args) == 4 && strings.EqualFold(s.args[2], "EX"):
		if !exists {
			break
		}
		at, failed := until(s, s.args[3], 1000, "getex")
		if failed != "" {
			return failed
		}
		s.put(s.args[1], row{r.value, at})
	default:
		return syntax
	}
	return found(r, exists)
}

func getRange(s *step) string {
	start, isStart := integer(s.args[2])
	end, isEnd := integer(s.args[3])
	if !isStart || !isEnd {
		return notAnInteger
	}
	r, _ := s.get(s.args[1])
	length := int64(len(r.value))
	if start < 0 && end < 0 && start > end {
		return bulk("")
	}
	if start < 0 {
		start = max(start+length, 0)
	}
	if end < 0 {
		end = max(end+length, 0)
	}
	end = min(end, length-1)
	if start > end {
		return bulk("")
	}
	return bulk(r.value[start : end+1])
}

func setRange(s *step) string {
	at, isInteger := integer(s.args[2])
	if !isInteger {
		return notAnInteger
	}
	if at < 0 {
		return offset
	}
	r, _ := s.get(s.args[1])
	part := s.args[3]
	if part == "" {
		return number(int64(len(r.value)))
	}
	value := []byte(r.value)
	if end := int(at) + len(part); end > len(value) {
		value = append(value, make([]byte, end-len(value))...)
	}
	copy(value[at:], part)
	s.put(s.args[1], row{string(value), r.expire})
	return number(int64(len(value)))
}

// bit gives the byte of a bit, the mask of the bit in it, and whether the offset is one.
func bit(word string) (int, byte, bool) {
	n, isInteger := integer(word)
	return int(n / 8), 0x80 >> (n & 7), isInteger && n >= 0 && n < 1<<32
}

func getBit(s *step) string {
	at, mask, isOffset := bit(s.args[2])
	if !isOffset {
		return bitOffset
	}
	r, _ := s.get(s.args[1])
	return truth(at < len(r.value) && r.value[at]&mask != 0)
}

func setBit(s *step) string {
	at, mask, isOffset := bit(s.args[2])
	if !isOffset {
		return bitOffset
	}
	if s.args[3] != "0" && s.args[3] != "1" {
		return notABit
	}
	r, _ := s.get(s.args[1])
	value := []byte(r.value)
	if at >= len(value) {
		value = append(value, make([]byte, at+1-len(value))...)
	}
	old := value[at]&mask != 0
	value[at] &^= mask
	if s.args[3] == "1" {
		value[at] |= mask
	}
	s.put(s.args[1], row{string(value), r.expire})
	return truth(old)
}

func (s *step) add(increment int64) string {
	r, exists := s.get(s.args[1])
	old, isInteger := int64(0), true
	if exists {
		old, isInteger = integer(r.value)
	}
	if !isInteger {
		return notAnInteger
	}
	if increment > 0 && old > math.MaxInt64-increment || increment < 0 && old < math.MinInt64-increment {
		return overflow
	}
	r.value = strconv.FormatInt(old+increment, 10)
	s.put(s.args[1], r)
	return number(old + increment)
}

func by(s *step, down bool) string {
	increment, isInteger := integer(s.args[2])
	if !isInteger {
		return notAnInteger
	}
	if down {
		if increment == math.MinInt64 {
			return decrOverflow
		}
		increment = -increment
	}
	return s.add(increment)
}

func del(s *step) string {
	count := int64(0)
	for _, key := range s.args[1:] {
		if _, exists := s.get(key); exists {
			s.remove(key)
			count++
		}
	}
	return number(count)
}

func exists(s *step) string {
	_, exists := s.get(s.args[1])
	return truth(exists)
}

func rename(s *step, onlyNew bool) string {
	from, to := s.args[1], s.args[2]
	r, exists := s.get(from)
	if !exists {
		return noSuchKey
	}
	if _, taken := s.get(to); taken && onlyNew {
		return number(0)
	}
	s.remove(from)
	s.put(to, r)
	if onlyNew {
		return number(1)
	}
	return ok
}

func expire(s *step, unit, from int64, of string) string {
	at, isInteger, fits := after(s.args[2], unit, from)
	if !isInteger {
		return notAnInteger
	}
	if !fits {
		return badExpire(of)
	}
	r, exists := s.get(s.args[1])
	switch {
	case !exists:
	case at <= s.now:
		s.remove(s.args[1])
	default:
		s.put(s.args[1], row{r.value, at})
	}
	return truth(exists)
}

// time gives what `of` says of the moment at which the key expires: -2 without a key, -1 without such a moment.
func (s *step) time(of func(at int64) int64) string {
	r, exists := s.get(s.args[1])
	switch {
	case !exists:
		return number(-2)
	case r.expire == 0:
		return number(-1)
	}
	return number(of(r.expire))
}
