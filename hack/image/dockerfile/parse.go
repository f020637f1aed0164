// Package dockerfile builds images from Dockerfiles without a container engine. It supports only the instructions that bundle and
// catalog images need.
package dockerfile

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Stage is a build stage: a FROM and its instructions.
type Stage struct {
	// Base is an image name, the name of an earlier stage, or scratch.
	Base string
	// Name is empty if the stage has none.
	Name  string
	Steps []Step
}

// Step is one instruction.
type Step struct {
	Line        int
	Instruction string   // in upper case
	Flags       []string // --from=builder
	Args        []string
	// Exec is true for the exec form (a JSON array), which runs without a shell.
	Exec bool
}

var supported = []string{"LABEL", "COPY", "ADD", "ENTRYPOINT", "CMD", "USER", "ENV", "WORKDIR", "RUN"}

// Parse parses a Dockerfile. It returns an error with the line number for instructions that Build does not support.
func Parse(r io.Reader) ([]Stage, error) {
	var stages []Stage
	scanner := bufio.NewScanner(r)
	for number := 1; scanner.Scan(); number++ {
		line, start := strings.TrimSpace(scanner.Text()), number
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		for strings.HasSuffix(line, `\`) && scanner.Scan() {
			number++
			if next := strings.TrimSpace(scanner.Text()); !strings.HasPrefix(next, "#") {
				line = strings.TrimSuffix(line, `\`) + " " + next
			}
		}
		var err error
		if stages, err = appendLine(stages, line, start); err != nil {
			return nil, fmt.Errorf("line %d: %w", start, err)
		}
	}
	if err := scanner.Err(); err != nil {
		return nil, err
	}
	if len(stages) == 0 {
		return nil, fmt.Errorf("no FROM instruction")
	}
	return stages, nil
}

func appendLine(stages []Stage, line string, number int) ([]Stage, error) {
	instruction, rest, _ := strings.Cut(line, " ")
	instruction, rest = strings.ToUpper(instruction), strings.TrimSpace(rest)
	if instruction == "FROM" {
		stage, err := parseFrom(rest)
		return append(stages, stage), err
	}
	if !slices.Contains(supported, instruction) {
		return nil, fmt.Errorf("%s is not supported: use only FROM, %s", instruction, strings.Join(supported, ", "))
	}
	if len(stages) == 0 {
		return nil, fmt.Errorf("%s before the first FROM", instruction)
	}
	step, err := parseStep(instruction, rest)
	if err != nil {
		return nil, err
	}
	step.Line = number
	last := &stages[len(stages)-1]
	last.Steps = append(last.Steps, step)
	return stages, nil
}

func parseFrom(rest string) (Stage, error) {
	args := strings.Fields(rest)
	switch {
	case len(args) == 1:
		return Stage{Base: args[0]}, nil
	case len(args) == 3 && strings.EqualFold(args[1], "as"):
		return Stage{Base: args[0], Name: args[2]}, nil
	default:
		return Stage{}, fmt.Errorf("FROM: want IMAGE or IMAGE AS NAME, got %q", rest)
	}
}

func parseStep(instruction, rest string) (Step, error) {
	step := Step{Instruction: instruction}
	for strings.HasPrefix(rest, "--") {
		flag, after, _ := strings.Cut(rest, " ")
		step.Flags, rest = append(step.Flags, flag), strings.TrimSpace(after)
	}
	if strings.HasPrefix(rest, "[") && json.Unmarshal([]byte(rest), &step.Args) == nil {
		step.Exec = true
	} else {
		args, err := split(rest)
		if err != nil {
			return step, err
		}
		step.Args = args
	}
	if len(step.Args) == 0 {
		return step, fmt.Errorf("%s without arguments", instruction)
	}
	if instruction != "RUN" && slices.ContainsFunc(step.Args, func(w string) bool { return strings.Contains(w, "$") }) {
		return step, fmt.Errorf("variables are not supported: use the value")
	}
	if instruction == "RUN" && !isCacheCommand(step.Args) {
		return step, fmt.Errorf("RUN is not supported without a container engine, except `opm serve DIR --cache-dir=DIR --cache-only`: got %q", rest)
	}
	return step, nil
}

// isCacheCommand reports whether args are the command of `opm generate dockerfile` that builds a catalog's cache.
func isCacheCommand(args []string) bool {
	return len(args) == 5 && (args[0] == "/bin/opm" || args[0] == "opm") && args[1] == "serve" && strings.HasPrefix(args[2], "/") &&
		strings.HasPrefix(args[3], "--cache-dir=/") && args[4] == "--cache-only"
}

// split splits a line into words with shell rules: quotes preserve spaces, a backslash escapes the next character.
func split(line string) ([]string, error) {
	var args []string
	for rest := strings.TrimLeft(line, " \t"); rest != ""; rest = strings.TrimLeft(rest, " \t") {
		word, after, err := firstArg(rest)
		if err != nil {
			return nil, fmt.Errorf("%w: %q", err, line)
		}
		args, rest = append(args, word), after
	}
	return args, nil
}

// firstArg returns the first word of text without quotes, and the rest.
func firstArg(text string) (word, rest string, err error) {
	var b strings.Builder
	for text != "" && text[0] != ' ' && text[0] != '\t' {
		part, after := text[:1], text[1:]
		switch text[0] {
		case '\\':
			if after == "" {
				return "", "", errors.New("the line ends with a backslash")
			}
			part, after = after[:1], after[1:]
		case '"', '\'':
			if part, after, err = unquote(text); err != nil {
				return "", "", err
			}
		}
		b.WriteString(part)
		text = after
	}
	return b.String(), text, nil
}

// unquote returns the content of the quoted string at the start of text, and the rest. In double quotes a backslash escapes the next
// character.
func unquote(text string) (content, rest string, err error) {
	var b strings.Builder
	for i := 1; i < len(text); i++ {
		switch {
		case text[i] == text[0]:
			return b.String(), text[i+1:], nil
		case text[i] == '\\' && text[0] == '"' && i+1 < len(text):
			i++
		}
		b.WriteByte(text[i])
	}
	return "", "", errors.New("missing closing quote")
}
