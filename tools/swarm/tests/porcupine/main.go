// Says of each key of the histories that it is given whether an order explains the operations on it, as
// Porcupine sees it: a second opinion. A line for each key: the file, the key, and ok, illegal or unknown.
package main

import (
	"bufio"
	"fmt"
	"math"
	"os"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

const title = "farcall-history 1"

// The longest that a key may take.
const within = 120 * time.Second

// What was asked for: get, put, delete or add, and what with.
type asked struct {
	kind, with string
}

// What came of it: found, nothing, done, sum or unknown, and what.
type told struct {
	kind, what string
}

// An object: its value, if there is one.
type object struct {
	exists bool
	value  string
}

func step(state, input, output interface{}) (bool, interface{}) {
	before, ask, tell := state.(object), input.(asked), output.(told)
	isKnown := tell.kind != "unknown"
	switch ask.kind {
	case "get":
		return !isKnown || tell.kind == "nothing" && !before.exists || tell.kind == "found" && before == object{true, tell.what}, before
	case "put":
		return true, object{true, ask.with}
	case "delete":
		return !isKnown || (tell.kind == "done") == before.exists, object{}
	default:
		sum := int64(0)
		if before.exists {
			number, err := strconv.ParseInt(before.value, 10, 64)
			if err != nil {
				return !isKnown, before
			}
			sum = number
		}
		amount, _ := strconv.ParseInt(ask.with, 10, 64)
		after := strconv.FormatInt(sum+amount, 10)
		return !isKnown || tell.what == after, object{true, after}
	}
}

var model = porcupine.Model{
	Init: func() interface{} { return object{} },
	Step: step,
}

func number(word string) int64 {
	value, err := strconv.ParseInt(word, 10, 64)
	if err != nil {
		fail("%q is no number", word)
	}
	return value
}

func fail(format string, values ...interface{}) {
	fmt.Fprintf(os.Stderr, format+"\n", values...)
	os.Exit(1)
}

func read(path string) map[string][]porcupine.Operation {
	file, err := os.Open(path)
	if err != nil {
		fail("%v", err)
	}
	defer file.Close()
	keys := map[string][]porcupine.Operation{}
	lines := bufio.NewScanner(file)
	if !lines.Scan() || lines.Text() != title {
		fail("%s is no history", path)
	}
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		if len(words) == 0 || words[0][0] == '#' {
			continue
		}
		ended := int64(math.MaxInt64)
		if words[3] != "-" {
			ended = number(words[3])
		}
		ask, rest := asked{kind: words[4]}, words[5:]
		if ask.kind == "put" || ask.kind == "add" {
			ask.with, rest = rest[0], rest[1:]
		}
		tell := told{kind: rest[0]}
		if len(rest) > 1 {
			tell.what = rest[1]
		}
		keys[words[1]] = append(keys[words[1]], porcupine.Operation{
			ClientId: int(number(words[0])), Input: ask, Call: number(words[2]), Output: tell, Return: ended,
		})
	}
	return keys
}

// Leaves out what explains nothing: a get without an answer, and, where nothing is deleted or added, a put
// without an answer whose value nobody has found. Porcupine tries every order of those.
func telling(operations []porcupine.Operation) []porcupine.Operation {
	found, onlyGetsAndPuts := map[string]bool{}, true
	for _, operation := range operations {
		kind := operation.Input.(asked).kind
		onlyGetsAndPuts = onlyGetsAndPuts && (kind == "get" || kind == "put")
		found[operation.Output.(told).what] = true
	}
	var kept []porcupine.Operation
	for _, operation := range operations {
		ask := operation.Input.(asked)
		saysNothing := ask.kind == "get" || ask.kind == "put" && onlyGetsAndPuts && !found[ask.with]
		if operation.Output.(told).kind != "unknown" || !saysNothing {
			kept = append(kept, operation)
		}
	}
	return kept
}

func main() {
	for _, path := range os.Args[1:] {
		keys := read(path)
		names := make([]string, 0, len(keys))
		for name := range keys {
			names = append(names, name)
		}
		sort.Strings(names)
		for _, name := range names {
			verdict := porcupine.CheckOperationsTimeout(model, telling(keys[name]), within)
			fmt.Printf("%s %s %s\n", path, name, strings.ToLower(string(verdict)))
		}
	}
}
