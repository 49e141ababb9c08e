// The dumps of `weir sim clients --dump`; its --help says what the fields are.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sort"
)

const (
	format  = "weir sim clients"
	version = 1
	// Longest line that is read, in bytes.
	lineBytesMax = 4 << 20
)

type header struct {
	Format  string `json:"format"`
	Version int    `json:"version"`
	Repeat  string `json:"repeat"`
}

// raw are bytes, written as a string of one character from U+0000 to U+00FF for each.
type raw string

func (r raw) MarshalJSON() ([]byte, error) {
	runes := make([]rune, len(r))
	for i := range len(r) {
		runes[i] = rune(r[i])
	}
	return json.Marshal(string(runes))
}

func (r *raw) UnmarshalJSON(text []byte) error {
	var characters string
	if err := json.Unmarshal(text, &characters); err != nil {
		return err
	}
	var out []byte
	for _, character := range characters {
		if character > 0xff {
			return fmt.Errorf("%q is not a byte", character)
		}
		out = append(out, byte(character))
	}
	*r = raw(out)
	return nil
}

// operation is a command that was asked and answered.
type operation struct {
	Group    int   `json:"group"`
	Client   int   `json:"client"`
	From     int64 `json:"from"`
	To       int64 `json:"to"`
	Database int   `json:"database"`
	NowMs    int64 `json:"now_ms"`
	Words    []raw `json:"words"`
	Answer   raw   `json:"answer"`
	Split    bool  `json:"split"`
}

type dump struct {
	header     header
	operations []operation
}

// readDump reads the file at path. What is wrong with it is told with the number of the line.
func readDump(path string) (*dump, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, lineBytesMax)
	d := &dump{}
	number := 0
	fail := func(err error) (*dump, error) { return nil, fmt.Errorf("%s: line %d: %w", path, number, err) }
	for lines.Scan() {
		number++
		if number == 1 {
			if err := decode(lines.Bytes(), &d.header); err != nil {
				return fail(err)
			}
			if d.header.Format != format || d.header.Version != version {
				return fail(fmt.Errorf("not a dump of `%s`, version %d", format, version))
			}
			continue
		}
		var op operation
		if err := decode(lines.Bytes(), &op); err != nil {
			return fail(err)
		}
		if op.From > op.To {
			return fail(errors.New("answered before it was asked"))
		}
		if err := known(op); err != nil {
			return fail(err)
		}
		d.operations = append(d.operations, op)
	}
	if err := lines.Err(); err != nil {
		number++
		return fail(err)
	}
	if number == 0 {
		return fail(errors.New("it is empty"))
	}
	return d, nil
}

func decode(line []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(line))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return err
	}
	if _, err := decoder.Token(); err != io.EOF {
		return errors.New("something follows the object")
	}
	return nil
}

func (d *dump) write(path string) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer file.Close()
	out := bufio.NewWriter(file)
	lines := json.NewEncoder(out)
	lines.SetEscapeHTML(false)
	if err := lines.Encode(d.header); err != nil {
		return err
	}
	for _, op := range d.operations {
		if err := lines.Encode(op); err != nil {
			return err
		}
	}
	if err := out.Flush(); err != nil {
		return err
	}
	return file.Close()
}

// groups gives the numbers of the groups in their order, and their operations by when they were asked.
func (d *dump) groups() ([]int, map[int][]operation) {
	of := map[int][]operation{}
	for _, op := range d.operations {
		of[op.Group] = append(of[op.Group], op)
	}
	var numbers []int
	for number, ops := range of {
		numbers = append(numbers, number)
		sort.SliceStable(ops, func(i, j int) bool { return ops[i].From < ops[j].From })
	}
	sort.Ints(numbers)
	return numbers, of
}
