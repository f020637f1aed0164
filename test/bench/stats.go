package main

import (
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

// spread is the coefficient of variation: the standard deviation divided by the mean.
func spread(values []float64) float64 {
	mean, square := 0.0, 0.0
	for _, v := range values {
		mean += v / float64(len(values))
	}
	for _, v := range values {
		square += (v - mean) * (v - mean)
	}
	return math.Sqrt(square/float64(max(len(values)-1, 1))) / mean
}

// ratio is the median of the ratios of each round, with the 95 % interval of the bootstrap.
type ratio struct {
	Of       string    `json:"of"`
	Median   float64   `json:"median"`
	Low      float64   `json:"low95"`
	High     float64   `json:"high95"`
	PerRound []float64 `json:"perRound"`
}

func newRatio(of string, perRound []float64) ratio {
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
	return ratio{Of: of, Median: median(perRound), Low: medians[samples*25/1000], High: medians[samples*975/1000], PerRound: perRound}
}
