// Package outages tests what a service behind slidegate sees when Redis fails, with
// real servers that are killed, stopped, cut off, filled up, demoted and moved while
// requests come. It holds tests only.
//
//	go test ./core/redisstore/outages                        a few rows
//	SLIDEGATE_OUTAGES=all go test -v ./core/redisstore/outages   all of them, as one table
package outages
