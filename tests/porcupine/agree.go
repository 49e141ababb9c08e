// Whether porcupine and Weir's own checker say the same.
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sort"
	"strconv"
)

var errDisagree = errors.New("the checkers do not agree")

type agreement struct {
	weir           string
	seeds, mutants uint64
	partitions     int
	sync           string
}

// tally counts groups by what both checkers said.
type tally struct{ accepted, refused, disagreed int }

var verdict = regexp.MustCompile(`(?m)^group (\d+): (\d+) operations, (not )?linearizable$`)

// ofWeir gives the verdict of `weir sim clients --check` on each group.
func (a *agreement) ofWeir(path string) (map[int]bool, error) {
	// It fails if a group is refused; whether it ran is seen by what it printed.
	out, err := exec.Command(a.weir, "sim", "clients", "--check", path).Output()
	verdicts, refused := map[int]bool{}, false
	for _, match := range verdict.FindAllStringSubmatch(string(out), -1) {
		number, wrong := strconv.Atoi(match[1])
		if wrong != nil {
			return nil, wrong
		}
		verdicts[number] = match[3] == ""
		refused = refused || match[3] != ""
	}
	if (err != nil) != refused {
		return nil, fmt.Errorf("weir sim clients --check %s: %w, though it prints no such verdict", path, err)
	}
	return verdicts, nil
}

// compare adds what both say of the dump at path, whose groups were changed as told, or not at all if that is nil.
func (a *agreement) compare(path string, told map[int]string, totals map[string]*tally) error {
	d, err := readDump(path)
	if err != nil {
		return err
	}
	theirs, err := a.ofWeir(path)
	if err != nil {
		return err
	}
	numbers, groups := d.groups()
	if len(theirs) != len(numbers) {
		return fmt.Errorf("%s: weir checked %d groups of %d", path, len(theirs), len(numbers))
	}
	for _, number := range numbers {
		ours, err := linearizable(groups[number], "")
		if err != nil {
			return fmt.Errorf("%s: group %d: %w", path, number, err)
		}
		kind := "as they were dumped"
		if told != nil {
			kind = told[number]
		}
		if totals[kind] == nil {
			totals[kind] = &tally{}
		}
		switch {
		case ours != theirs[number]:
			totals[kind].disagreed++
			fmt.Printf("%s: group %d (%s): porcupine says %v, weir %v\n", path, number, kind, ours, theirs[number])
		case ours:
			totals[kind].accepted++
		default:
			totals[kind].refused++
		}
	}
	return nil
}

func (a *agreement) run() error {
	folder, err := os.MkdirTemp("", "weir-porcupine-")
	if err != nil {
		return err
	}
	totals := map[string]*tally{}
	err = a.all(folder, totals)
	var kinds []string
	disagreed := 0
	for kind := range totals {
		kinds = append(kinds, kind)
	}
	sort.Strings(kinds)
	fmt.Println("| groups | linearizable for both | refused by both | they disagree |\n|---|---|---|---|")
	for _, kind := range kinds {
		t := totals[kind]
		disagreed += t.disagreed
		fmt.Printf("| %s | %d | %d | %d |\n", kind, t.accepted, t.refused, t.disagreed)
	}
	if err != nil || disagreed > 0 {
		return errors.Join(err, disagreement(disagreed, folder))
	}
	return os.RemoveAll(folder)
}

func disagreement(count int, folder string) error {
	if count == 0 {
		return nil
	}
	return fmt.Errorf("%w: on %d groups; the dumps are in %s", errDisagree, count, folder)
}

// all compares dumps as they are, and mutants of them.
func (a *agreement) all(folder string, totals map[string]*tally) error {
	for seed := range a.seeds {
		path := filepath.Join(folder, fmt.Sprintf("%d.jsonl", seed))
		arguments := []string{"sim", "clients", "--seed", strconv.FormatUint(seed, 10), "--only", names(), "--dump", path,
			"--partitions", strconv.Itoa(a.partitions), "--sync", a.sync}
		// A run that is refused leaves its dump, too.
		if out, err := exec.Command(a.weir, arguments...).CombinedOutput(); err != nil {
			fmt.Printf("weir: %v\n%s", err, out)
		}
		if err := a.compare(path, nil, totals); err != nil {
			return err
		}
		d, err := readDump(path)
		if err != nil {
			return err
		}
		for number := range a.mutants {
			mutant, told := mutate(d, seed*a.mutants+number)
			path := filepath.Join(folder, fmt.Sprintf("%d-%d.jsonl", seed, number))
			if err := mutant.write(path); err != nil {
				return err
			}
			if err := a.compare(path, told, totals); err != nil {
				return err
			}
		}
	}
	return nil
}
