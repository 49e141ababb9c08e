package main

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func asked(client int, line string, from, to int64, answer string) operation {
	op := operation{Client: client, From: from, To: to, NowMs: 5, Answer: raw(answer)}
	for word := range strings.SplitSeq(line, " ") {
		op.Words = append(op.Words, raw(word))
	}
	return op
}

// The answers stand in Redis' manual.
func TestTheModelAnswersAsRedis(t *testing.T) {
	rows := state{}
	for _, step := range []struct{ line, answer string }{
		{"GET k", null},
		{"SET k v NX", ok},
		{"SET k w NX", null},
		{"SET k w XX GET", bulk("v")},
		{"SET none w XX GET", null},
		{"SET k w EX 10", ok},
		{"TTL k", number(10)},
		{"PEXPIRETIME k", number(10005)},
		{"APPEND k x", number(2)},
		{"PTTL k", number(10000)},
		{"SET k y KEEPTTL", ok},
		{"TTL k", number(10)},
		{"SET k y", ok},
		{"TTL k", number(-1)},
		{"TTL none", number(-2)},
		{"EXPIRE k -1", number(1)},
		{"EXISTS k", number(0)},
		{"EXPIRE k 1", number(0)},
		{"INCR n", number(1)},
		{"DECRBY n 5", number(-4)},
		{"SETRANGE n 4 x", number(5)},
		{"GET n", bulk("-4\x00\x00x")},
		{"INCR n", notAnInteger},
		{"SETRANGE n -1 x", offset},
		{"SETRANGE none 5 ", number(0)},
		{"GETRANGE n -100 1", bulk("-4")},
		{"GETRANGE n -1 -5", bulk("")},
		{"GETRANGE n 4 100", bulk("x")},
		{"MSETNX a 1 n 2", number(0)},
		{"MSETNX a 1 b 2", number(1)},
		{"MSET a 3 a 4", ok},
		{"GETEX a EX 1", bulk("4")},
		{"PERSIST a", number(1)},
		{"PERSIST a", number(0)},
		{"GETSET a 5", bulk("4")},
		{"RENAMENX a b", number(0)},
		{"RENAME a b", ok},
		{"RENAME a b", noSuchKey},
		{"RENAME b b", ok},
		{"GETDEL b", bulk("5")},
		{"DEL n n b", number(1)},
		{"SETBIT bits 7 1", number(0)},
		{"GET bits", bulk("\x01")},
		{"GETBIT bits 7", number(1)},
		{"GETBIT bits 99", number(0)},
		{"SETBIT bits -1 1", bitOffset},
		{"SETEX k 0 v", badExpire("setex")},
		{"SET k v NX XX", syntax},
	} {
		var answer string
		before := len(rows)
		copied := state{}
		for key, r := range rows {
			copied[key] = r
		}
		was := rows
		answer, rows = run(rows, asked(0, step.line, 0, 0, ""))
		if answer != step.answer {
			t.Errorf("%s: %q instead of %q", step.line, answer, step.answer)
		}
		if len(was) != before || !reflect.DeepEqual(was, copied) {
			t.Errorf("%s changed the state that it was given", step.line)
		}
	}
}

func TestOrdersAreFoundAndMissed(t *testing.T) {
	for _, history := range []struct {
		good bool
		ops  []operation
	}{
		{true, []operation{asked(1, "SET k a", 0, 10, ok), asked(2, "GET k", 5, 6, null), asked(3, "GET k", 5, 7, bulk("a"))}},
		{true, []operation{asked(1, "SET k a", 0, 10, ok), asked(2, "GET k", 10, 11, null)}},
		{false, []operation{asked(1, "SET k a", 0, 10, ok), asked(2, "GET k", 11, 12, null)}},
		{false, []operation{asked(1, "INCR n", 0, 10, number(1)), asked(2, "INCR n", 0, 10, number(1))}},
	} {
		if good, err := linearizable(history.ops, ""); err != nil || good != history.good {
			t.Errorf("%v: %v, %v", history.ops, good, err)
		}
	}
}

func TestADumpComesBackAndBadOnesAreRefusedWithTheirLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "dump")
	d := &dump{header: header{format, version, "x"}, operations: []operation{asked(3, "SET k \x00\xff<\n", 1, 2, ok)}}
	if err := d.write(path); err != nil {
		t.Fatal(err)
	}
	read, err := readDump(path)
	if err != nil || !reflect.DeepEqual(read, d) {
		t.Errorf("%v, %v", read, err)
	}
	bytes, _ := os.ReadFile(path)
	for _, change := range [][3]string{
		{`"version":1`, `"version":2`, "line 1: not a dump"},
		{`"SET"`, `"LCS"`, "line 2: the model has no `lcs`"},
		{`"SET","k",`, `"SET",`, "line 2: the model has no `set` of 2 words"},
		{`"from":1`, `"from":3`, "line 2: answered before"},
		{`"k"`, `"\u0100"`, "line 2: 'Ā' is not a byte"},
		{`"split":false}`, `"split":false`, "line 2: "},
		{`"client"`, `"clients"`, "line 2: "},
	} {
		bad := strings.Replace(string(bytes), change[0], change[1], 1)
		if err := os.WriteFile(path, []byte(bad), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := readDump(path); err == nil || !strings.Contains(err.Error(), change[2]) {
			t.Errorf("%s: %v", change[1], err)
		}
	}
}
