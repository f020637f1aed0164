package main

import (
	"bytes"
	"crypto/rand"
	_ "embed"
	"errors"
	"html/template"
	"net/http"
	"os"
	"slices"
)

const (
	cookieName = "voter_id"
	// maxForm is far more than "vote=a" needs.
	maxForm = 4 << 10
	// voterLength is the length of the IDs of rand.Text.
	voterLength = 26
)

//go:embed pages.html
var pagesText string

var pages = template.Must(template.New("").Parse(pagesText))

// votePage is the content of the page on which people vote.
type votePage struct {
	poll
	Voted, Message string
	Hostname       string
}

// resultPage is the content of the page with the results.
type resultPage struct {
	poll
	Rows  []resultRow
	Total int
}

type resultRow struct {
	option
	Votes, Percent int
}

type app struct {
	load     func() (poll, error)
	box      *box
	hostname string
}

// handler serves the pages of the poll that load returns.
func handler(load func() (poll, error), votes *box) http.Handler {
	hostname, err := os.Hostname()
	if err != nil {
		hostname = "unknown"
	}
	a := &app{load: load, box: votes, hostname: hostname}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", a.show)
	mux.HandleFunc("POST /{$}", a.vote)
	mux.HandleFunc("GET /results", a.results)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	return http.NewCrossOriginProtection().Handler(mux)
}

func (a *app) show(w http.ResponseWriter, _ *http.Request) {
	p, err := a.load()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	render(w, http.StatusOK, "vote", votePage{poll: p, Hostname: a.hostname})
}

func (a *app) vote(w http.ResponseWriter, r *http.Request) {
	p, err := a.load()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	id := r.PostFormValue("vote")
	page := votePage{poll: p, Hostname: a.hostname}
	if !slices.ContainsFunc(p.Options, func(o option) bool { return o.ID == id }) {
		page.Message = "There is no such option."
		render(w, http.StatusBadRequest, "vote", page)
		return
	}
	switch err := a.box.vote(voter(w, r), id, p.MaxVotesPerUser); {
	case errors.Is(err, errVoted):
		page.Message = "You have no votes left."
		render(w, http.StatusForbidden, "vote", page)
	case err != nil:
		page.Message = "No more people can vote."
		render(w, http.StatusServiceUnavailable, "vote", page)
	default:
		page.Voted = id
		render(w, http.StatusOK, "vote", page)
	}
}

// voter returns the ID in the visitor's cookie, and sets one if there is none.
func voter(w http.ResponseWriter, r *http.Request) string {
	if c, err := r.Cookie(cookieName); err == nil && len(c.Value) == voterLength {
		return c.Value
	}
	id := rand.Text()
	http.SetCookie(w, &http.Cookie{Name: cookieName, Value: id, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode})
	return id
}

func (a *app) results(w http.ResponseWriter, _ *http.Request) {
	p, err := a.load()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	render(w, http.StatusOK, "results", tally(p, a.box.count()))
}

// tally sums up the votes for the current options; votes for removed options do not count.
func tally(p poll, counts map[string]int) resultPage {
	page := resultPage{poll: p}
	for _, o := range p.Options {
		page.Total += counts[o.ID]
	}
	for _, o := range p.Options {
		row := resultRow{option: o, Votes: counts[o.ID]}
		if page.Total > 0 {
			row.Percent = 100 * row.Votes / page.Total
		}
		page.Rows = append(page.Rows, row)
	}
	return page
}

// render writes a complete page, or an error.
func render(w http.ResponseWriter, status int, name string, data any) {
	var body bytes.Buffer
	if err := pages.ExecuteTemplate(&body, name, data); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; frame-ancestors 'none'")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = body.WriteTo(w) // the visitor may have disconnected
}
