package main

import (
	"bytes"
	"context"
	"crypto/rand"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

const (
	cookieName = "session"
	// readTimeout bounds the calls for one page, orderTimeout the call for one order.
	readTimeout, orderTimeout = requestTimeout + time.Second, requestTimeout + 5*time.Second
)

//go:embed page.html
var pageText string

var page = template.Must(template.New("").Funcs(template.FuncMap{"euros": euros, "key": rand.Text}).Parse(pageText))

func euros(cents int64) string { return fmt.Sprintf("€ %d.%02d", cents/100, cents%100) }

// frontend is the page of the shop.
//
//	GET  /             the catalogue, the number of orders and the orders of the session
//	GET  /?order=KEY   the same, with the confirmation of an order
//	POST /orders       places an order: product=espresso&key=KEY
//	GET  /healthz      200 while it serves
type frontend struct {
	// backend is the URL of the backend.
	backend string
	client  *http.Client
}

// content is the content of the page.
type content struct {
	Products []product
	Count    int64
	// Session are the orders of the visitor's session.
	Session []order
	// Confirmed is the order that the URL names; nil for none.
	Confirmed *order
	Problem   string
}

func newFrontend(getenv func(string) string) (*frontend, error) {
	host, port := getenv("BACKEND_HOST"), getenv("BACKEND_PORT")
	if host == "" || port == "" {
		return nil, errors.New("set BACKEND_HOST and BACKEND_PORT")
	}
	// A new connection for each request is spread over the pods, and leads to none that is gone.
	transport := &http.Transport{DialContext: (&net.Dialer{Timeout: dialTimeout}).DialContext, DisableKeepAlives: true}
	return &frontend{backend: "http://" + net.JoinHostPort(host, port), client: &http.Client{Transport: transport}}, nil
}

func (f *frontend) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", f.show)
	mux.HandleFunc("POST /orders", f.place)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	return http.NewCrossOriginProtection().Handler(mux)
}

func (f *frontend) show(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), readTimeout)
	defer cancel()
	c, err := f.read(ctx, sessionOf(w, r), r.URL.Query().Get("order"))
	if err != nil {
		problem(w, "read the catalogue", err)
		return
	}
	render(w, http.StatusOK, c)
}

// read collects the content of the page.
func (f *frontend) read(ctx context.Context, session, key string) (c content, err error) {
	if err := f.call(ctx, http.MethodGet, "/products", nil, nil, &c.Products); err != nil {
		return c, err
	}
	var found summary
	if err := f.call(ctx, http.MethodGet, "/orders?keys="+url.QueryEscape(key), nil, nil, &found); err != nil {
		return c, err
	}
	c.Count = found.Count
	if len(found.Orders) == 1 {
		c.Confirmed = &found.Orders[0]
	}
	return c, f.call(ctx, http.MethodGet, "/session", map[string]string{headerSession: session}, nil, &c.Session)
}

// place places the order of a form. The key is that of the form, so a form that is sent twice is one order.
func (f *frontend) place(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	key, session := r.PostFormValue("key"), sessionOf(w, r)
	wanted, err := newOrder(key, request{Product: r.PostFormValue("product"), Quantity: 1})
	if err != nil {
		render(w, http.StatusBadRequest, content{Problem: err.Error()})
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), orderTimeout)
	defer cancel()
	err = f.call(ctx, http.MethodPost, "/orders", map[string]string{headerKey: key, headerSession: session},
		request{Product: wanted.Product, Quantity: wanted.Quantity}, &order{})
	if err != nil {
		problem(w, "place the order", err)
		return
	}
	http.Redirect(w, r, "/?order="+url.QueryEscape(key), http.StatusSeeOther)
}

// call sends a request to the backend, and decodes the JSON of its answer. body is sent as JSON, unless it is nil. Without
// any answer, the request is sent again until ctx ends. A backend that answers has already repeated what can be repeated.
func (f *frontend) call(ctx context.Context, method, path string, headers map[string]string, body, answer any) error {
	var text, data []byte
	var status int
	if body != nil {
		var err error
		if text, err = json.Marshal(body); err != nil {
			return err
		}
	}
	err := retry(ctx, orderTimeout, orderTimeout, func(ctx context.Context) (err error) {
		status, data, err = f.send(ctx, method, path, headers, text)
		return err
	})
	if err != nil {
		return err
	}
	if status != http.StatusOK {
		return fmt.Errorf("%s %s: status %d: %s", method, path, status, strings.TrimSpace(string(data)))
	}
	if err := json.Unmarshal(data, answer); err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	return nil
}

// send sends a request once, and returns the status and the body of the answer.
func (f *frontend) send(ctx context.Context, method, path string, headers map[string]string, body []byte) (int, []byte, error) {
	r, err := http.NewRequestWithContext(ctx, method, f.backend+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	for name, value := range headers {
		r.Header.Set(name, value)
	}
	response, err := f.client.Do(r)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close() //nolint:errcheck // it was only read
	data, err := io.ReadAll(io.LimitReader(response.Body, maxBody))
	return response.StatusCode, data, err
}

// sessionOf returns the session of the visitor's cookie, and sets a new one if there is none.
func sessionOf(w http.ResponseWriter, r *http.Request) string {
	if c, err := r.Cookie(cookieName); err == nil && identifier.MatchString(c.Value) {
		return c.Value
	}
	id := rand.Text()
	http.SetCookie(w, &http.Cookie{Name: cookieName, Value: id, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode})
	return id
}

// problem writes a page without details, which are in the log.
func problem(w http.ResponseWriter, action string, err error) {
	slog.Error("failed to "+action, "error", err)
	render(w, http.StatusServiceUnavailable, content{Problem: "The shop cannot " + action + " at the moment. Reload the page to try again."})
}

// render writes a complete page, or an error.
func render(w http.ResponseWriter, status int, c content) {
	var body bytes.Buffer
	if err := page.Execute(&body, c); err != nil {
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
