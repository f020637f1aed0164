package main

import (
	"bufio"
	"net"
	"reflect"
	"strings"
	"testing"
)

func TestDecode(t *testing.T) {
	for text, want := range map[string]any{
		"+OK\r\n":                   "OK",
		":12\r\n":                   int64(12),
		"$9\r\nabc\r\n":             nil, // it has fewer bytes
		"$4\r\na\r\nb\r\n":          "a\r\nb",
		"$-1\r\n":                   nil,
		"*2\r\n$1\r\na\r\n:3\r\n":   []any{"a", int64(3)},
		"*0\r\n":                    []any{},
		"*1\r\n*1\r\n+nested\r\n":   []any{[]any{"nested"}},
		"-WRONGPASS wrong\r\n":      nil,
		"HTTP/1.1 400 Bad\r\n":      nil,
		"$99999999999\r\n":          nil,
		"\r\n":                      nil,
		"*2\r\n$1\r\na\r\n-no\r\n":  nil,
		"*1\r\n$3\r\nab":            nil,
		"$3\r\nabc\r\n+following\r": "abc",
	} {
		got, err := decode(bufio.NewReader(strings.NewReader(text)))
		if failed := want == nil && text != "$-1\r\n"; failed != (err != nil) {
			t.Errorf("%q: error %v", text, err)
		}
		if err == nil && !reflect.DeepEqual(got, want) {
			t.Errorf("%q: got %#v instead of %#v", text, got, want)
		}
	}
}

func TestCache_logsInFirst(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it is closed below
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	got := make(chan string, 1)
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		var received strings.Builder
		lines := bufio.NewReader(conn)
		for range 3 {
			command, err := decode(lines)
			if err != nil {
				break
			}
			for _, word := range command.([]any) {
				received.WriteString(word.(string) + " ")
			}
			_, _ = conn.Write([]byte("+OK\r\n"))
		}
		got <- received.String()
	}()
	c, err := newCache("redis://default:p%40ss@" + listener.Addr().String() + "/2")
	if err != nil {
		t.Fatal(err)
	}
	if reply, err := c.do(t.Context(), []string{"GET", "with space"}); err != nil || reply != "OK" {
		t.Errorf("reply %v, error %v", reply, err)
	}
	if commands := <-got; commands != "AUTH default p@ss SELECT 2 GET with space " {
		t.Error(commands)
	}
}

func TestNewCache(t *testing.T) {
	c, err := newCache("redis://:pass@cache.shop.svc")
	if err != nil || *c != (cache{addr: "cache.shop.svc:6379", password: "pass"}) {
		t.Errorf("%+v, error %v", c, err)
	}
	for _, uri := range []string{"http://:hidden@cache", "redis://:hidden%zz@cache", "cache:6379"} {
		if _, err := newCache(uri); err == nil || strings.Contains(err.Error(), "hidden") {
			t.Errorf("%s: error %v", uri, err)
		}
	}
}
