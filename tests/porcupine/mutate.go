// Histories with something wrong. Not every mutant is refused: what was changed may be as possible as what was.
package main

import (
	"math/rand/v2"
	"slices"
	"sort"
	"strings"
)

// A mutation changes operations in the order of their questions; it gives false if there is nothing to change.
type mutation struct {
	name   string
	change func(rng *rand.Rand, ops []operation) ([]operation, bool)
}

var mutations = []mutation{
	{"two answers are swapped", swapAnswers},
	{"a read is moved earlier", func(rng *rand.Rand, ops []operation) ([]operation, bool) { return move(rng, ops, isRead, -1) }},
	{"a write is moved later", func(rng *rand.Rand, ops []operation) ([]operation, bool) { return move(rng, ops, isWrite, 1) }},
	{"a write is lost", loseWrite},
}

var reads = strings.Split("get,mget,strlen,getrange,substr,getbit,exists,touch,type,ttl,pttl,expiretime,pexpiretime", ",")

func isRead(op operation) bool  { return slices.Contains(reads, strings.ToLower(string(op.Words[0]))) }
func isWrite(op operation) bool { return !isRead(op) }

func some(rng *rand.Rand, ops []operation, is func(operation) bool) (int, bool) {
	var which []int
	for i, op := range ops {
		if is(op) {
			which = append(which, i)
		}
	}
	if len(which) == 0 {
		return 0, false
	}
	return which[rng.IntN(len(which))], true
}

// swapAnswers prefers two operations of one command: the answer of another is often of another kind.
func swapAnswers(rng *rand.Rand, ops []operation) ([]operation, bool) {
	one := rng.IntN(len(ops))
	differs := func(op operation) bool { return op.Answer != ops[one].Answer }
	same := func(op operation) bool { return differs(op) && op.Words[0] == ops[one].Words[0] }
	other, ok := some(rng, ops, same)
	if !ok {
		other, ok = some(rng, ops, differs)
	}
	if ok {
		ops[one].Answer, ops[other].Answer = ops[other].Answer, ops[one].Answer
	}
	return ops, ok
}

// move puts an operation before (-1) or behind (1) one of its ten neighbours in time, as long as it was.
func move(rng *rand.Rand, ops []operation, is func(operation) bool, by int) ([]operation, bool) {
	which, ok := some(rng, ops, is)
	neighbour := which + by*(1+rng.IntN(10))
	if !ok || neighbour < 0 || neighbour >= len(ops) {
		return ops, false
	}
	took := ops[which].To - ops[which].From
	if by < 0 {
		ops[which].From = max(ops[neighbour].From-1-took, 0)
	} else {
		ops[which].From = ops[neighbour].To + 1
	}
	ops[which].To = ops[which].From + took
	return ops, true
}

func loseWrite(rng *rand.Rand, ops []operation) ([]operation, bool) {
	which, ok := some(rng, ops, isWrite)
	if !ok {
		return ops, false
	}
	return slices.Delete(ops, which, which+1), true
}

// mutate changes one thing in each group of d, and says what.
func mutate(d *dump, seed uint64) (*dump, map[int]string) {
	rng := rand.New(rand.NewPCG(seed, 0))
	mutant, told := &dump{header: d.header}, map[int]string{}
	numbers, groups := d.groups()
	for _, number := range numbers {
		told[number] = "nothing"
		// Ten tries: some groups have no read, say.
		for range 10 {
			mutation := mutations[rng.IntN(len(mutations))]
			changed, ok := mutation.change(rng, slices.Clone(groups[number]))
			if ok {
				groups[number], told[number] = changed, mutation.name
				break
			}
		}
		mutant.operations = append(mutant.operations, groups[number]...)
	}
	return mutant, told
}

func sorted[V any](of map[int]V) []int {
	var numbers []int
	for number := range of {
		numbers = append(numbers, number)
	}
	sort.Ints(numbers)
	return numbers
}
