package lines

import (
	"context"
	"fmt"
	"os"
	"time"
)

// Logger sends the reference's log to stderr and offers each line to Watch.
type Logger struct {
	Quiet bool
	Watch func(format string, args []any)
}

func (l *Logger) log(level, format string, args []any) {
	if l.Watch != nil {
		l.Watch(format, args)
	}
	if !l.Quiet {
		fmt.Fprintf(os.Stderr, "%s %s "+format+"\n",
			append([]any{time.Now().Format("15:04:05.000"), level}, args...)...)
	}
}

// Debugf is part of the reference's logger interface, as the three below.
func (l *Logger) Debugf(_ context.Context, format string, args ...any) { l.log("debug", format, args) }

// Infof logs information.
func (l *Logger) Infof(_ context.Context, format string, args ...any) { l.log("info", format, args) }

// Warnf logs a warning.
func (l *Logger) Warnf(_ context.Context, format string, args ...any) { l.log("warning", format, args) }

// Errorf logs an error.
func (l *Logger) Errorf(_ context.Context, format string, args ...any) { l.log("error", format, args) }
