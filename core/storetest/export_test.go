package storetest

import "testing"

// Check is one run of one check of the suite.
type Check struct {
	Name string
	Run  func(testing.TB, func(testing.TB) *Harness)
}

// Checks lists the runs that Run makes subtests of.
func Checks() []Check {
	var list []Check
	for _, c := range checks() {
		if len(c.shapes) == 0 {
			c.shapes = []shape{{}}
		}
		for _, sh := range c.shapes {
			list = append(list, Check{c.name + "/" + sh.String(), func(tb testing.TB, open func(testing.TB) *Harness) {
				c.run(tb, open, sh)
			}})
		}
	}
	return list
}
