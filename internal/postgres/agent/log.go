package agent

import (
	"io"
	"log/slog"
	"strings"
)

// NewLogger writes JSON lines in the form of the operator's own log.
func NewLogger(out io.Writer, level slog.Leveler) *slog.Logger {
	return slog.New(slog.NewJSONHandler(out, &slog.HandlerOptions{
		Level: level,
		ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
			switch {
			case len(groups) > 0:
			case a.Key == slog.TimeKey:
				return slog.String("ts", a.Value.Time().UTC().Format("2006-01-02T15:04:05.000Z07:00"))
			case a.Key == slog.LevelKey:
				return slog.String("level", strings.ToLower(a.Value.String()))
			}
			return a
		},
	})).With("logger", "agent")
}
