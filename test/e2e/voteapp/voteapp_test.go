package main

import (
	"errors"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMerge(t *testing.T) {
	mounted := poll{
		Title: "Pets", ResultsTitle: "Pet results", MaxVotesPerUser: 2,
		Options: []option{{"a", "Cats", "#FF6B6B"}, {"c", "Birds", ""}},
	}
	for name, tc := range map[string]struct {
		environ []string
		mounted poll
		want    poll
	}{
		"nothing": {nil, poll{}, poll{Title: "Cats vs Dogs", ResultsTitle: "Results", Options: []option{{"a", "Cats", ""}, {"b", "Dogs", ""}}}},
		"the environment": {
			[]string{"OPTION_Z=Zebras", "OPTION_A=Apes", "OPTION_B=", "TITLE=Best?", "RESULTS_TITLE=Won", "MAX_VOTES_PER_USER=3", "option_c=no"}, poll{},
			poll{Title: "Best?", ResultsTitle: "Won", Options: []option{{"a", "Apes", ""}, {"z", "Zebras", ""}}, MaxVotesPerUser: 3},
		},
		"the file": {nil, mounted, mounted},
		"both": {
			[]string{"OPTION_A=Apes", "OPTION_B=Bees"}, mounted,
			poll{Title: "Pets", ResultsTitle: "Pet results", MaxVotesPerUser: 2, Options: []option{{"a", "Apes", "#FF6B6B"}, {"b", "Bees", ""}}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := merge(tc.environ, tc.mounted)
			if diff := cmp.Diff(tc.want, got); err != nil || diff != "" {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
		})
	}
	for _, limit := range []string{"0", "-1", "many"} {
		if _, err := merge([]string{"MAX_VOTES_PER_USER=" + limit}, poll{}); err == nil || !strings.Contains(err.Error(), limit) {
			t.Errorf("MAX_VOTES_PER_USER=%s: %v", limit, err)
		}
	}
}

func TestLoad(t *testing.T) {
	folder := t.TempDir()
	write := func(text string) {
		if err := os.WriteFile(filepath.Join(folder, optionsFile), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if p, err := load(nil, folder); err != nil || len(p.Options) != 2 {
		t.Errorf("without a file: %+v, %v", p, err)
	}
	write(`{"title":"Pets","options":[{"id":"a","label":"Cats","color":"#FF6B6B"}]}`)
	if p, err := load(nil, folder); err != nil || p.Title != "Pets" || p.Options[0].Color != "#FF6B6B" {
		t.Errorf("with a file: %+v, %v", p, err)
	}
	write(`{"title":`)
	if _, err := load(nil, folder); err == nil || !strings.Contains(err.Error(), optionsFile) {
		t.Errorf("with half a file: %v", err)
	}
}

func TestBox(t *testing.T) {
	b := newBox(2)
	for i, step := range []struct {
		voter, id string
		limit     int
		err       error
	}{
		{"x", "a", 0, nil}, {"x", "b", 0, nil}, // changed
		{"y", "a", 2, nil}, {"y", "a", 2, nil}, {"y", "a", 2, errVoted},
		{"z", "a", 0, errFull}, {"z", "a", 5, errFull}, {"x", "b", 0, nil},
	} {
		if err := b.vote(step.voter, step.id, step.limit); !errors.Is(err, step.err) {
			t.Errorf("step %d: %v, want %v", i, err, step.err)
		}
	}
	if diff := cmp.Diff(map[string]int{"a": 2, "b": 1}, b.count()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestTally(t *testing.T) {
	p := poll{Options: []option{{"a", "Cats", ""}, {"b", "Dogs", ""}}}
	got := tally(p, map[string]int{"a": 2, "b": 1, "gone": 5})
	want := resultPage{poll: p, Total: 3, Rows: []resultRow{{p.Options[0], 2, 66}, {p.Options[1], 1, 33}}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(resultPage{}, resultRow{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if empty := tally(p, nil); empty.Total != 0 || empty.Rows[0].Percent != 0 {
		t.Errorf("without votes: %+v", empty)
	}
}

// visitor is a browser with its own cookies.
type visitor struct {
	t *testing.T
	http.Client
	url string
}

func newVisitor(t *testing.T, url string) *visitor {
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &visitor{t, http.Client{Jar: jar}, url}
}

// see returns the status and body of a page; with a vote, of the page after it.
func (v *visitor) see(path, vote string) (int, string) {
	v.t.Helper()
	request, err := http.NewRequestWithContext(v.t.Context(), http.MethodGet, v.url+path, nil)
	if vote != "" {
		body := strings.NewReader(url.Values{"vote": {vote}}.Encode())
		request, err = http.NewRequestWithContext(v.t.Context(), http.MethodPost, v.url+path, body)
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	if err != nil {
		v.t.Fatal(err)
	}
	response, err := v.Do(request)
	if err != nil {
		v.t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		v.t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

// serve serves a poll of three options, two of them malicious, for two voters with two votes each.
func serve(t *testing.T) string {
	t.Helper()
	p := poll{Title: "Best <pet>?", ResultsTitle: "Won", MaxVotesPerUser: 2, Options: []option{
		{"a", "Cats & co", "#FF6B6B"}, {"b", "<script>alert(1)</script>", "red;} body{display:none"}, {"c", "Birds", ""},
	}}
	server := httptest.NewServer(handler(func() (poll, error) { return p, nil }, newBox(2)))
	t.Cleanup(server.Close)
	return server.URL
}

func TestTheVotePage(t *testing.T) {
	status, page := newVisitor(t, serve(t)).see("/", "")
	for _, want := range []string{"Best &lt;pet&gt;?", "Cats &amp; co", "border-color: #FF6B6B", "&lt;script&gt;", ">Birds<", "Votes for each: 2", `value="c"`} {
		if status != http.StatusOK || !strings.Contains(page, want) {
			t.Errorf("the vote page (%d) does not have %q:\n%s", status, want, page)
		}
	}
	for _, bad := range []string{"<script>", "display:none"} {
		if strings.Contains(page, bad) {
			t.Errorf("the vote page has %q", bad)
		}
	}
}

func TestVoting(t *testing.T) {
	url := serve(t)
	one, two := newVisitor(t, url), newVisitor(t, url)
	for i, step := range []struct {
		who    *visitor
		vote   string
		status int
		has    string
	}{
		{one, "a", 200, `value="a" aria-pressed="true"`}, {one, "c", 200, `value="c" aria-pressed="true"`}, {one, "c", 403, "no votes left"},
		{two, "c", 200, ""}, {two, "d", 400, "no such option"}, {newVisitor(t, url), "a", 503, "No more people"},
		{two, strings.Repeat("x", maxForm), 400, ""},
	} {
		if status, page := step.who.see("/", step.vote); status != step.status || !strings.Contains(page, step.has) {
			t.Errorf("step %d: status %d, want %d with %q:\n%s", i, status, step.status, step.has, page)
		}
	}
	_, page := one.see("/results", "")
	for _, want := range []string{"<h1>Won</h1>", "Cats &amp; co: 1 (33%)", "Birds: 2 (66%)", "Votes: 3"} {
		if !strings.Contains(page, want) {
			t.Errorf("the results do not have %q:\n%s", want, page)
		}
	}
	if status, _ := one.see("/healthz", ""); status != http.StatusOK {
		t.Errorf("healthz: %d", status)
	}
}

func TestOthersCanNotVoteForAVisitor(t *testing.T) {
	h := handler(func() (poll, error) { return merge(nil, poll{}) }, newBox(1))
	request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader("vote=a"))
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	request.Header.Set("Sec-Fetch-Site", "cross-site")
	answer := httptest.NewRecorder()
	h.ServeHTTP(answer, request)
	if answer.Code != http.StatusForbidden {
		t.Errorf("status %d", answer.Code)
	}
}

func TestAPollThatCanNotBeRead(t *testing.T) {
	h := handler(func() (poll, error) { return poll{}, errors.New("no poll") }, newBox(1))
	for _, path := range []string{"/", "/results"} {
		answer := httptest.NewRecorder()
		h.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
		if answer.Code != http.StatusInternalServerError || !strings.Contains(answer.Body.String(), "no poll") {
			t.Errorf("%s: status %d: %s", path, answer.Code, answer.Body)
		}
	}
}
