package main

import (
	"errors"
	"maps"
	"sync"
)

// maxVoters bounds the memory: about 100 bytes for each.
const maxVoters = 100_000

var (
	errFull  = errors.New("the ballot box is full: no more people can vote")
	errVoted = errors.New("you have no votes left")
)

// box counts votes. It is safe for concurrent use.
type box struct {
	maxVoters int

	mu     sync.Mutex
	voters map[string]ballot
	votes  map[string]int
}

// ballot holds the votes of one voter.
type ballot struct {
	cast int
	last string
}

// newBox returns an empty box for at most that many voters.
func newBox(maxVoters int) *box {
	return &box{maxVoters: maxVoters, voters: map[string]ballot{}, votes: map[string]int{}}
}

// vote records a vote for an option. With limit 0 it replaces the voter's last one; otherwise limit is the number of votes per voter.
func (b *box) vote(voter, id string, limit int) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	had, known := b.voters[voter]
	switch {
	case !known && len(b.voters) >= b.maxVoters:
		return errFull
	case limit == 0 && known:
		b.votes[had.last]--
		had.cast--
	case limit > 0 && had.cast >= limit:
		return errVoted
	}
	b.votes[id]++
	b.voters[voter] = ballot{cast: had.cast + 1, last: id}
	return nil
}

// count returns the number of votes for each option.
func (b *box) count() map[string]int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return maps.Clone(b.votes)
}
