//go:build unix

package redistest

// WatchdogPID returns the process id of the shell that watches the server.
func WatchdogPID(s *Server) int { return s.run.shell.Process.Pid }
