package docs_test

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ +(.*)$`)
	block   = regexp.MustCompile("(?s)```.*?```")
	span    = regexp.MustCompile("`[^`\n]*`")
	dropped = regexp.MustCompile(`[^\p{L}\p{N}\s_-]`)
)

// TestLinksLeadSomewhere follows every link to a file of the repository, and to a heading in a page.
func TestLinksLeadSomewhere(t *testing.T) {
	all := pages(t)
	for page, text := range all {
		for _, found := range link.FindAllStringSubmatch(span.ReplaceAllString(block.ReplaceAllString(text, ""), ""), -1) {
			target, anchor, _ := strings.Cut(found[1], "#")
			if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
				continue
			}
			to := page
			if target != "" {
				to = path.Join(path.Dir(page), target)
			}
			if _, err := os.Stat(filepath.Join(root, to)); err != nil {
				t.Errorf("%s: %s does not exist", page, found[1])
			} else if anchor != "" && !anchors(all[to])[anchor] {
				t.Errorf("%s: %s has no heading #%s", page, to, anchor)
			}
		}
	}
}

// anchors are the names that GitHub gives to the headings of a page.
func anchors(text string) map[string]bool {
	all := map[string]bool{}
	for _, found := range heading.FindAllStringSubmatch(block.ReplaceAllString(text, ""), -1) {
		title := link.ReplaceAllString(strings.ReplaceAll(found[1], "[", ""), "")
		all[strings.ReplaceAll(dropped.ReplaceAllString(strings.ToLower(strings.TrimSpace(title)), ""), " ", "-")] = true
	}
	return all
}
