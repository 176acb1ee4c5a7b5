package core

// Waiting returns how many lines of waiting callers the limiter keeps.
func Waiting(l *Limiter) int {
	l.queues.mu.Lock()
	defer l.queues.mu.Unlock()
	return len(l.queues.lines)
}
