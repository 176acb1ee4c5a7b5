// Package redistest starts real redis-server processes, replicas, Sentinels and Redis
// Clusters on free loopback ports, and proxies that fail in front of them, for tests,
// examples and measurements.
//
// Nothing is left behind: when the program that started a server ends, by Stop,
// by returning from main, by a panic or by any signal, SIGKILL too, the server is
// killed and its directory removed. A watchdog sees to it, a shell that waits for
// the end of a pipe which the program holds.
//
// It needs a Unix system and redis-server on the PATH; a Redis Cluster needs
// redis-server 7.0 or later, and a clock that can be moved needs Linux and cc.
// Tests that use Need, NeedReplica, NeedCluster, NeedSentinel or NeedWithClock are
// skipped where that is missing, or fail if the environment variable SLIDEGATE_REDIS
// is "require".
package redistest
