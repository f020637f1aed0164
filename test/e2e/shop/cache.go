package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strconv"
	"strings"
)

// maxReply is the length in bytes, or in elements, of a reply that is read.
const maxReply = 1 << 20

// cache is a client of a Valkey or Redis server, in version 2 of its protocol. Each call uses a new connection.
type cache struct {
	addr, user, password, database string
}

// newCache parses a URI such as redis://user:password@host:6379/0. No error has a part of it.
func newCache(uri string) (*cache, error) {
	u, err := url.Parse(uri)
	if err != nil || u.Scheme != "redis" || u.Host == "" {
		return nil, errors.New("REDIS_URL: must be a URI such as redis://user:password@host:6379/0")
	}
	c := &cache{addr: u.Host, database: strings.TrimPrefix(u.Path, "/"), user: u.User.Username()}
	c.password, _ = u.User.Password()
	if u.Port() == "" {
		c.addr = net.JoinHostPort(u.Hostname(), "6379")
	}
	return c, nil
}

// do runs commands, and returns the reply to the last one: a string, an int64, a []any of replies, or nil.
func (c *cache) do(ctx context.Context, commands ...[]string) (reply any, err error) {
	conn, err := (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, "tcp", c.addr)
	if err != nil {
		return nil, fmt.Errorf("connect to the cache: %w", err)
	}
	defer conn.Close() //nolint:errcheck // all replies were read
	if deadline, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(deadline); err != nil {
			return nil, fmt.Errorf("connect to the cache: %w", err)
		}
	}
	var first [][]string
	if c.password != "" {
		login := []string{"AUTH", c.password}
		if c.user != "" {
			login = []string{"AUTH", c.user, c.password}
		}
		first = append(first, login)
	}
	if c.database != "" {
		first = append(first, []string{"SELECT", c.database})
	}
	replies := bufio.NewReader(conn)
	for _, command := range append(first, commands...) {
		if _, err := io.WriteString(conn, encode(command)); err != nil {
			return nil, fmt.Errorf("%s: %w", command[0], err)
		}
		if reply, err = decode(replies); err != nil {
			return nil, fmt.Errorf("%s: %w", command[0], err)
		}
	}
	return reply, nil
}

// encode is a command as an array of strings.
func encode(command []string) string {
	var out strings.Builder
	fmt.Fprintf(&out, "*%d\r\n", len(command))
	for _, word := range command {
		fmt.Fprintf(&out, "$%d\r\n%s\r\n", len(word), word)
	}
	return out.String()
}

// decode reads one reply. An error reply is an error.
func decode(r *bufio.Reader) (any, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return nil, err
	}
	line = strings.TrimSuffix(line, "\r\n")
	if line == "" {
		return nil, errors.New("the cache sent an empty line")
	}
	kind, rest := line[0], line[1:]
	switch kind {
	case '+':
		return rest, nil
	case '-':
		return nil, fmt.Errorf("error from the cache: %s", rest)
	case ':':
		return strconv.ParseInt(rest, 10, 64)
	}
	n, err := strconv.Atoi(rest)
	switch {
	case err != nil || n > maxReply || kind != '$' && kind != '*':
		return nil, errors.New("the cache does not speak the protocol of Redis")
	case n < 0:
		return nil, nil
	case kind == '$':
		text := make([]byte, n+len("\r\n"))
		if _, err := io.ReadFull(r, text); err != nil {
			return nil, err
		}
		return string(text[:n]), nil
	}
	all := []any{}
	for range n {
		element, err := decode(r)
		if err != nil {
			return nil, err
		}
		all = append(all, element)
	}
	return all, nil
}
