package redisstore

import "github.com/slidegate/slidegate/core"

// Waiting returns how many calls wait for a line to the one server of the store.
func Waiting(s *Store) int {
	r := s.link.Load().roads.find(nil)
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.length
}

// Known reports whether the store of a cluster knows the way to the server of a call.
func Known(s *Store, c *core.Call) bool { return s.link.Load().roads.find(c) != nil }

// ReadMany fills a reply of many.lua into calls: those of each list ask the same.
func ReadMany(reply []int64, calls [][]*core.Call) (alone []bool, err error) {
	var bundles []*bundle
	for _, list := range calls {
		bundles = append(bundles, &bundle{calls: list})
	}
	err = readMany(reply, bundles)
	for _, b := range bundles {
		alone = append(alone, b.err == errLeftAlone)
	}
	return alone, err
}
