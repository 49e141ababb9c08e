// Checks dumps of `weir sim clients` with porcupine; see README.md.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/anishathalye/porcupine"
)

const usage = `Checks dumps of "weir sim clients --dump FILE" for linearizability with porcupine and a model of its own.

  go run . check [-every] [-visualize DIR] FILE      is it linearizable, group by group?
  go run . mutate [-seed N] FILE OUT                 writes the dump with one thing wrong in each group
  go run . agree -weir PATH [-seeds N] [-mutants N] [-partitions N] [-sync MODE]
                                                     does "weir sim clients --check" say the same, of dumps and mutants?
  go run . commands                                  the commands of the model, for --only

Exit status: 0 linearizable, or agreed; 1 not; 2 it could not be found out.
`

// Longest search in one group.
const patience = time.Minute

var errRefused = errors.New("not linearizable")

func main() {
	if err := dispatch(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "porcupine:", err)
		if errors.Is(err, errRefused) || errors.Is(err, errDisagree) {
			os.Exit(1)
		}
		os.Exit(2)
	}
}

func dispatch(args []string) error {
	if len(args) == 0 {
		return errors.New("what?\n" + usage)
	}
	flags := flag.NewFlagSet(args[0], flag.ExitOnError)
	flags.Usage = func() { fmt.Fprint(flags.Output(), usage) }
	files := func(count int) error {
		// It exits on an error.
		_ = flags.Parse(args[1:])
		if flags.NArg() != count {
			return fmt.Errorf("%d files instead of %d\n%s", flags.NArg(), count, usage)
		}
		return nil
	}
	switch args[0] {
	case "check":
		every := flags.Bool("every", false, "print the verdict on each group")
		pages := flags.String("visualize", "", "write a page for each group that is not linearizable to this folder")
		if err := files(1); err != nil {
			return err
		}
		return checkFile(flags.Arg(0), *every, *pages)
	case "mutate":
		seed := flags.Uint64("seed", 1, "seed of the mutations")
		if err := files(2); err != nil {
			return err
		}
		d, err := readDump(flags.Arg(0))
		if err != nil {
			return err
		}
		mutant, told := mutate(d, *seed)
		for _, number := range sorted(told) {
			fmt.Printf("group %d: %s\n", number, told[number])
		}
		return mutant.write(flags.Arg(1))
	case "agree":
		var a agreement
		flags.StringVar(&a.weir, "weir", "", "path of the binary")
		flags.Uint64Var(&a.seeds, "seeds", 5, "dumps")
		flags.Uint64Var(&a.mutants, "mutants", 5, "mutants of each dump")
		flags.IntVar(&a.partitions, "partitions", 1, "partitions of the tenant")
		flags.StringVar(&a.sync, "sync", "interval", "what an acknowledgement promises")
		if err := files(0); err != nil {
			return err
		}
		return a.run()
	case "commands":
		fmt.Println(names())
		return files(0)
	case "help", "-h", "-help", "--help":
		fmt.Print(usage)
		return nil
	}
	return fmt.Errorf("no such command: %s\n%s", args[0], usage)
}

// linearizable says whether the operations of one group are; page, if it has a name, is written if they are not.
func linearizable(ops []operation, page string) (bool, error) {
	history := make([]porcupine.Operation, len(ops))
	for i, op := range ops {
		history[i] = porcupine.Operation{ClientId: op.Client, Input: op, Call: op.From, Output: string(op.Answer), Return: op.To}
	}
	if page == "" {
		switch porcupine.CheckOperationsTimeout(model, history, patience) {
		case porcupine.Ok:
			return true, nil
		case porcupine.Illegal:
			return false, nil
		}
		return false, fmt.Errorf("not found out in %v", patience)
	}
	result, info := porcupine.CheckOperationsVerbose(model, history, patience)
	switch result {
	case porcupine.Ok:
		return true, nil
	case porcupine.Illegal:
		return false, porcupine.VisualizePath(model, info, page)
	}
	return false, fmt.Errorf("not found out in %v", patience)
}

func checkFile(path string, every bool, pages string) error {
	d, err := readDump(path)
	if err != nil {
		return err
	}
	if pages != "" {
		if err := os.MkdirAll(pages, 0o755); err != nil {
			return err
		}
	}
	numbers, groups := d.groups()
	refused := 0
	for _, number := range numbers {
		page := ""
		if pages != "" {
			page = filepath.Join(pages, fmt.Sprintf("group-%d.html", number))
		}
		good, err := linearizable(groups[number], page)
		if err != nil {
			return fmt.Errorf("group %d: %w", number, err)
		}
		word := "linearizable"
		if !good {
			refused++
			word = "not linearizable"
		}
		if every || !good {
			fmt.Printf("group %d: %d operations, %s\n", number, len(groups[number]), word)
		}
		if !good && page != "" {
			fmt.Println("  ", page)
		}
	}
	fmt.Printf("%d groups, %d operations, %d groups not linearizable\n", len(numbers), len(d.operations), refused)
	if refused > 0 {
		return fmt.Errorf("%s: %w", path, errRefused)
	}
	return nil
}
