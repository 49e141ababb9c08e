// What commands on rows do, after Redis' manual; nothing of it comes from Weir's handlers. A state is the rows of a group.
package main

import (
	"fmt"
	"maps"
	"sort"
	"strconv"
	"strings"

	"github.com/anishathalye/porcupine"
)

// row is a value, and when it expires in milliseconds since 1970; 0 is never.
type row struct {
	value  string
	expire int64
}

// state is never changed: a step that writes makes another.
type state map[string]row

// step is one command on its way: its rows are those of the state before, until it writes and owns a copy.
type step struct {
	rows     state
	owned    bool
	database int
	now      int64
	args     []string
}

func (s *step) name(key string) string { return strconv.Itoa(s.database) + "/" + key }

func (s *step) get(key string) (row, bool) {
	r, ok := s.rows[s.name(key)]
	if ok && r.expire != 0 && r.expire <= s.now {
		return row{}, false
	}
	return r, ok
}

func (s *step) own() {
	if !s.owned {
		s.rows, s.owned = maps.Clone(s.rows), true
	}
}

func (s *step) put(key string, r row) {
	s.own()
	s.rows[s.name(key)] = r
}

func (s *step) remove(key string) {
	s.own()
	delete(s.rows, s.name(key))
}

// known says why the model cannot tell what op does.
func known(op operation) error {
	if len(op.Words) == 0 {
		return fmt.Errorf("no words")
	}
	name := strings.ToLower(string(op.Words[0]))
	command, ok := commands[name]
	if !ok {
		return fmt.Errorf("the model has no `%s`; dump with --only \"$(go run . commands)\"", name)
	}
	if words := len(op.Words); words < command.least || words > command.most {
		return fmt.Errorf("the model has no `%s` of %d words", name, words)
	}
	if n, _ := strconv.ParseInt(string(op.Words[min(2, len(op.Words)-1)]), 10, 64); name == "setrange" && n > reachMax || name == "setbit" && n > 8*reachMax {
		return fmt.Errorf("`%s` makes a value of more than %d bytes", name, reachMax)
	}
	return nil
}

// run gives the reply in RESP2, and the state behind op.
func run(before state, op operation) (string, state) {
	s := &step{rows: before, database: op.Database, now: op.NowMs}
	for _, word := range op.Words {
		s.args = append(s.args, string(word))
	}
	reply := commands[strings.ToLower(s.args[0])].run(s)
	return reply, s.rows
}

func names() string {
	var all []string
	for name := range commands {
		all = append(all, name)
	}
	sort.Strings(all)
	return strings.Join(all, ",")
}

var model = porcupine.Model{
	Init: func() any { return state{} },
	Step: func(before, input, output any) (bool, any) {
		reply, after := run(before.(state), input.(operation))
		return reply == output.(string), after
	},
	Equal: func(a, b any) bool { return maps.Equal(a.(state), b.(state)) },
	DescribeOperation: func(input, output any) string {
		var words []string
		for _, word := range input.(operation).Words {
			words = append(words, strconv.Quote(string(word)))
		}
		return fmt.Sprintf("%s -> %q", strings.Join(words, " "), output)
	},
	DescribeState: func(of any) string {
		var rows []string
		for key, r := range of.(state) {
			rows = append(rows, fmt.Sprintf("%s = %q until %d", key, r.value, r.expire))
		}
		sort.Strings(rows)
		return strings.Join(rows, "\n")
	},
}
