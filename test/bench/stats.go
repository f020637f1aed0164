package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	if len(sorted) == 0 {
		return math.NaN()
	}
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

// ratio is the median of the ratios of each round, with the 95 % interval of the bootstrap.
type ratio struct{ median, low, high float64 }

func (r ratio) String() string { return fmt.Sprintf("%.2f (%.2f to %.2f)", r.median, r.low, r.high) }

func newRatio(perRound []float64) ratio {
	const samples = 10_000
	random := rand.New(rand.NewPCG(1, 2)) // deterministic for the same rounds
	medians, sample := make([]float64, samples), make([]float64, len(perRound))
	for i := range medians {
		for j := range sample {
			sample[j] = perRound[random.IntN(len(perRound))]
		}
		medians[i] = median(sample)
	}
	slices.Sort(medians)
	return ratio{median(perRound), medians[samples*25/1000], medians[samples*975/1000]}
}
