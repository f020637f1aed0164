// Package language_test holds the language of Fettle: figures of the pages, and words that are not used.
// CONTRIBUTING.md has the rules in words.
package language_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Bounds of a page, and of tiny pages together.
const (
	minCodeBlocks = 5.0 // in 1,000 words
	minHeadings   = 7.0 // in 1,000 words
	maxSemicolons = 3.0 // in 100 sentences
	maxLong       = 5.0 // percent of the sentences
	longSentence  = 30  // words; a longer sentence is long
	tinyPage      = 300 // words; a shorter page is counted with the others
)

// conceptPages need a picture.
var conceptPages = []string{"docs/webapp.md", "docs/appconfig.md", "docs/postgresql.md", "docs/postgresql-failover.md", "docs/postgresql-backup.md", "docs/backup.md",
	"docs/architecture.md"}

// figures are the counts of a page, without code blocks and tables.
type figures struct {
	words, sentences, long, semicolons, codeBlocks, headings, pictures int

	longOnes []string // the long sentences
}

func (f *figures) add(g figures) {
	f.words += g.words
	f.sentences += g.sentences
	f.long += g.long
	f.semicolons += g.semicolons
	f.codeBlocks += g.codeBlocks
	f.headings += g.headings
	f.pictures += g.pictures
	f.longOnes = append(f.longOnes, g.longOnes...)
}

// TestFigures measures each page. Run it with -v for the table.
func TestFigures(t *testing.T) {
	tiny, all, runbooks := figures{}, figures{}, figures{}
	t.Logf("%-32s %6s %9s %7s %7s %12s %12s %8s", "page", "words", "sentences", "w/sent.", "long %", "; /100 sent.", "code /1000 w", "head /1000 w")
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/runbooks/*.md"} {
		files, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			name, _ := filepath.Rel(root, file)
			page := measure(string(text))
			all.add(page)
			switch {
			case strings.HasPrefix(name, "docs/runbooks/"):
				runbooks.add(page)
			case page.words < tinyPage:
				tiny.add(page)
			default:
				hold(t, name, page)
			}
		}
	}
	hold(t, "pages of less than 300 words", tiny)
	hold(t, "docs/runbooks", runbooks)
	hold(t, "all pages", all)
	for _, name := range conceptPages {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Error(err)
		} else if measure(string(text)).pictures == 0 {
			t.Errorf("%s explains a concept and has no picture: add a mermaid diagram", name)
		}
	}
}

// hold compares a page with the bounds.
func hold(t *testing.T, name string, f figures) {
	t.Helper()
	per := func(count, of int, unit float64) float64 { return unit * float64(count) / float64(max(of, 1)) }
	code, headings := per(f.codeBlocks, f.words, 1000), per(f.headings, f.words, 1000)
	semicolons, long := per(f.semicolons, f.sentences, 100), per(f.long, f.sentences, 100)
	t.Logf("%-32s %6d %9d %7.1f %7.1f %12.1f %12.1f %8.1f", name, f.words, f.sentences, per(f.words, f.sentences, 1), long, semicolons, code, headings)
	for _, bound := range []struct {
		bad  bool
		text string
	}{
		{code < minCodeBlocks, fmt.Sprintf("%.1f code blocks in 1,000 words, want at least %.0f", code, minCodeBlocks)},
		{headings < minHeadings, fmt.Sprintf("%.1f headings in 1,000 words, want at least %.0f", headings, minHeadings)},
		{semicolons > maxSemicolons, fmt.Sprintf("%.1f semicolons in 100 sentences, want at most %.0f", semicolons, maxSemicolons)},
		{long > maxLong, fmt.Sprintf("%.1f %% of the sentences have more than %d words, want at most %.0f %%:\n\t%s",
			long, longSentence, maxLong, strings.Join(f.longOnes, "\n\t"))},
	} {
		if bound.bad {
			t.Errorf("%s: %s", name, bound.text)
		}
	}
}

var (
	picture  = regexp.MustCompile(`!\[[^\]]*\]\([^)]*\.(svg|png)\)`)
	link     = regexp.MustCompile(`!?\[([^\]]*)\]\([^)]*\)`)
	codeSpan = regexp.MustCompile("`[^`]*`")
	comment  = regexp.MustCompile(`(?s)<!--.*?-->`)
	bullet   = regexp.MustCompile(`^\s*([-*+]|\d+\.)\s+`)
	sentence = regexp.MustCompile(`[.!?]["')*_]*(\s+|$)`)
	word     = regexp.MustCompile(`[\p{L}\p{N}]`)
)

// measure counts a page in Markdown. Every paragraph and every item of a list ends a sentence.
func measure(page string) figures {
	f := figures{}
	paragraph, fence := []string{}, ""
	flush := func() {
		f.prose(strings.Join(paragraph, " "))
		paragraph = nil
	}
	for line := range strings.Lines(comment.ReplaceAllString(page, "")) {
		trimmed := strings.TrimSpace(line)
		f.pictures += len(picture.FindAllString(line, -1))
		switch {
		case fence != "":
			if strings.HasPrefix(trimmed, fence) {
				fence = ""
			}
		case strings.HasPrefix(trimmed, "```"):
			flush()
			fence = "```"
			if trimmed == "```mermaid" {
				f.pictures++
			} else {
				f.codeBlocks++
			}
		case strings.HasPrefix(trimmed, "#"):
			flush()
			f.headings++
		case strings.HasPrefix(trimmed, "|"), trimmed == "":
			flush()
		case bullet.MatchString(line):
			flush()
			paragraph = append(paragraph, bullet.ReplaceAllString(line, ""))
		default:
			paragraph = append(paragraph, trimmed)
		}
	}
	flush()
	return f
}

// prose counts a paragraph.
func (f *figures) prose(text string) {
	text = codeSpan.ReplaceAllString(link.ReplaceAllString(text, "$1"), "code")
	f.semicolons += strings.Count(text, ";")
	for _, s := range sentence.Split(text, -1) {
		words := 0
		for field := range strings.FieldsSeq(s) {
			if word.MatchString(field) {
				words++
			}
		}
		if words == 0 {
			continue
		}
		f.words += words
		f.sentences++
		if words > longSentence {
			f.long++
			f.longOnes = append(f.longOnes, strings.TrimSpace(s))
		}
	}
}

// TestMeasure holds what counts as what.
func TestMeasure(t *testing.T) {
	got := measure("# Title\n\nOne `a; b` sentence; of [six](https://x.y) words. And one\nmore!\n\n- an item\n\n```yaml\na: 1\n```\n\n```mermaid\nx\n```\n\n| a; | b |\n")
	want := figures{words: 11, sentences: 3, semicolons: 1, codeBlocks: 1, headings: 1, pictures: 1}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}
