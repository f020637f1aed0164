package main

import (
	"encoding/json"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
)

// fakeBackend answers like the backend, with texts that a page must escape.
type fakeBackend struct {
	broken bool
	placed []order
	// sessions are those of the placed orders.
	sessions []string
}

func (f *fakeBackend) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case f.broken:
		unavailable(w, "test", http.ErrServerClosed)
	case r.Method == http.MethodPost:
		var body request
		_ = json.NewDecoder(r.Body).Decode(&body)
		f.placed = append(f.placed, order{ID: 7, Key: r.Header.Get(headerKey), Product: body.Product, Quantity: body.Quantity, Cents: 2490})
		f.sessions = append(f.sessions, r.Header.Get(headerSession))
		reply(w, http.StatusOK, f.placed[0])
	case r.URL.Path == "/products":
		reply(w, http.StatusOK, []product{{ID: "espresso", Name: "<script>alert(1)</script>", Cents: 5}})
	case r.URL.Path == "/orders":
		found := summary{Count: 41, Orders: []order{}}
		if key := r.URL.Query().Get("keys"); len(f.placed) > 0 && key == f.placed[0].Key {
			found.Orders = f.placed[:1]
		}
		reply(w, http.StatusOK, found)
	default:
		reply(w, http.StatusOK, []order{})
	}
}

// visit starts a frontend with the backend, and returns its URL and a browser.
func visit(t *testing.T, backend *fakeBackend) (string, *http.Client) {
	t.Helper()
	behind := httptest.NewServer(backend)
	t.Cleanup(behind.Close)
	front := httptest.NewServer((&frontend{backend: behind.URL, client: behind.Client()}).handler())
	t.Cleanup(front.Close)
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return front.URL, &http.Client{Jar: jar}
}

func body(t *testing.T, response *http.Response, err error) string {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var text strings.Builder
	if err := response.Write(&text); err != nil {
		t.Fatal(err)
	}
	return text.String()
}

func TestFrontend_ordersOnceForOneForm(t *testing.T) {
	backend := &fakeBackend{}
	front, browser := visit(t, backend)
	response, err := browser.Get(front)
	shown := body(t, response, err)
	for _, want := range []string{"&lt;script&gt;alert(1)&lt;/script&gt;", "€ 0.05", `<b id="count">41</b>`, "default-src 'none'"} {
		if !strings.Contains(shown, want) {
			t.Errorf("no %s in\n%s", want, shown)
		}
	}
	key := regexp.MustCompile(`name="key" value="([^"]+)"`).FindStringSubmatch(shown)
	if key == nil {
		t.Fatal("the form has no key")
	}
	for range 2 {
		response, err = browser.PostForm(front+"/orders", url.Values{"product": {"espresso"}, "key": {key[1]}})
		if shown := body(t, response, err); !strings.Contains(shown, `<b id="confirmed">7</b>`) {
			t.Errorf("no confirmation in\n%s", shown)
		}
	}
	if len(backend.placed) != 2 || backend.placed[0].Key != key[1] || backend.placed[1].Key != key[1] {
		t.Errorf("placed %+v", backend.placed)
	}
	if backend.sessions[0] == "" || backend.sessions[0] != backend.sessions[1] {
		t.Errorf("sessions %q", backend.sessions)
	}
}

func TestFrontend_rejectsWrongForms(t *testing.T) {
	backend := &fakeBackend{}
	front, browser := visit(t, backend)
	response, err := browser.PostForm(front+"/orders", url.Values{"product": {"<b>tea</b>"}, "key": {"k"}})
	if shown := body(t, response, err); response.StatusCode != http.StatusBadRequest || strings.Contains(shown, "<b>tea") {
		t.Errorf("answer\n%s", shown)
	}
	if len(backend.placed) > 0 {
		t.Errorf("placed %+v", backend.placed)
	}
}

func TestFrontend_saysWhenTheBackendFails(t *testing.T) {
	front, browser := visit(t, &fakeBackend{broken: true})
	response, err := browser.Get(front)
	if shown := body(t, response, err); response.StatusCode != http.StatusServiceUnavailable || !strings.Contains(shown, "Reload the page") {
		t.Errorf("answer\n%s", shown)
	}
}
