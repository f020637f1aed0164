package kube

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestParse(t *testing.T) {
	objects, err := Parse([]byte("# a comment alone\n---\n---\nkind: A\nmetadata: {name: one}\n---\nkind: B\nmetadata: {name: two}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if len(objects) != 2 || objects[0].GetName() != "one" || objects[1].GetKind() != "B" {
		t.Errorf("got %v", objects)
	}
	if _, err := Parse([]byte("kind: [")); err == nil {
		t.Error("an invalid document returned no error")
	}
}

func TestPoll_returnsLastError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		reason, tries := errors.New("not there"), 0
		err := Poll(ctx, time.Second, func(context.Context) (bool, error) {
			tries++
			return false, reason
		})
		if !errors.Is(err, reason) || tries < 3 {
			t.Errorf("got %v after %d tries", err, tries)
		}
	})
}

func TestPoll_stopsWhenDone(t *testing.T) {
	tries := 0
	err := Poll(t.Context(), time.Millisecond, func(context.Context) (bool, error) {
		tries++
		return tries == 3, nil
	})
	if err != nil || tries != 3 {
		t.Errorf("got %v after %d tries", err, tries)
	}
}
