package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"
)

const (
	// sessionSeconds is how long a session lives without a new order.
	sessionSeconds = "3600"
	// healthTimeout bounds the check of the database and the cache.
	healthTimeout = 2 * time.Second
)

// backend is the service of orders.
//
//	GET  /products           the catalogue
//	POST /orders             places the order of the body: {"product": "espresso", "quantity": 2}
//	GET  /orders?keys=a,b    the number of all orders, and the orders with these keys
//	GET  /session            the orders of a session
//	GET  /healthz            200 while the database and the cache answer
type backend struct {
	orders *orders
	// cache is nil if there is none. Then there are no sessions.
	cache *cache
}

func newBackend(getenv func(string) string) (*backend, error) {
	o, err := newOrders(getenv)
	if err != nil {
		return nil, err
	}
	b := &backend{orders: o}
	if uri := getenv("REDIS_URL"); uri != "" {
		if b.cache, err = newCache(uri); err != nil {
			return nil, err
		}
	}
	return b, nil
}

func (b *backend) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /products", func(w http.ResponseWriter, _ *http.Request) { reply(w, http.StatusOK, catalogue) })
	mux.HandleFunc("POST /orders", b.place)
	mux.HandleFunc("GET /orders", b.list)
	mux.HandleFunc("GET /session", b.session)
	mux.HandleFunc("GET /healthz", b.health)
	return mux
}

// place stores an order, and answers only after its commit.
func (b *backend) place(w http.ResponseWriter, r *http.Request) {
	var body request
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody)).Decode(&body); err != nil {
		fail(w, http.StatusBadRequest, fmt.Errorf("the body is not an order: %w", err))
		return
	}
	wanted, err := newOrder(r.Header.Get(headerKey), body)
	if err != nil {
		fail(w, http.StatusBadRequest, err)
		return
	}
	var stored order
	err = retry(r.Context(), requestTimeout, attemptTimeout, func(ctx context.Context) (err error) {
		stored, err = b.orders.place(ctx, wanted)
		return err
	})
	if err != nil {
		unavailable(w, "place an order", err)
		return
	}
	if id := r.Header.Get(headerSession); b.cache != nil && identifier.MatchString(id) {
		if err := b.remember(r.Context(), id, stored); err != nil {
			slog.Error("failed to write the session", "error", err) // the order is stored all the same
		}
	}
	reply(w, http.StatusOK, stored)
}

// remember adds an order to the session.
func (b *backend) remember(ctx context.Context, id string, stored order) error {
	text, err := json.Marshal(stored)
	if err != nil {
		return err
	}
	return once(ctx, healthTimeout, func(ctx context.Context) error {
		// A set: a repeated request adds nothing.
		_, err := b.cache.do(ctx, []string{"ZADD", "session:" + id, fmt.Sprint(stored.ID), string(text)}, []string{"EXPIRE", "session:" + id, sessionSeconds})
		return err
	})
}

func (b *backend) list(w http.ResponseWriter, r *http.Request) {
	keys := strings.FieldsFunc(r.URL.Query().Get("keys"), func(c rune) bool { return c == ',' })
	if len(keys) > maxKeys {
		fail(w, http.StatusBadRequest, fmt.Errorf("keys: at most %d", maxKeys))
		return
	}
	var found summary
	err := retry(r.Context(), requestTimeout, attemptTimeout, func(ctx context.Context) (err error) {
		found, err = b.orders.summary(ctx, keys)
		return err
	})
	if err != nil {
		unavailable(w, "list orders", err)
		return
	}
	reply(w, http.StatusOK, found)
}

// session answers with the orders of a session; without a cache there are none.
func (b *backend) session(w http.ResponseWriter, r *http.Request) {
	found := []json.RawMessage{}
	id := r.Header.Get(headerSession)
	if b.cache == nil || !identifier.MatchString(id) {
		reply(w, http.StatusOK, found)
		return
	}
	err := once(r.Context(), healthTimeout, func(ctx context.Context) error {
		all, err := b.cache.do(ctx, []string{"ZRANGE", "session:" + id, "0", "-1"})
		elements, _ := all.([]any)
		for _, element := range elements {
			if text, ok := element.(string); ok {
				found = append(found, json.RawMessage(text))
			}
		}
		return err
	})
	if err != nil {
		unavailable(w, "read the session", err)
		return
	}
	reply(w, http.StatusOK, found)
}

func (b *backend) health(w http.ResponseWriter, r *http.Request) {
	err := once(r.Context(), healthTimeout, b.orders.ping)
	if err == nil && b.cache != nil {
		err = once(r.Context(), healthTimeout, func(ctx context.Context) error {
			_, err := b.cache.do(ctx, []string{"PING"})
			return err
		})
	}
	if err != nil {
		unavailable(w, "check the database and the cache", err)
		return
	}
	w.WriteHeader(http.StatusOK)
}

// reply writes a JSON answer.
func reply(w http.ResponseWriter, status int, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(value) // the client may have disconnected
}

func fail(w http.ResponseWriter, status int, err error) {
	reply(w, status, map[string]string{"error": err.Error()})
}

// unavailable logs an error that is not for clients.
func unavailable(w http.ResponseWriter, action string, err error) {
	slog.Error("failed to "+action, "error", err)
	fail(w, http.StatusServiceUnavailable, fmt.Errorf("failed to %s: try again", action))
}
