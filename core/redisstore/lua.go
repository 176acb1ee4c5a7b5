package redisstore

import _ "embed"

// The scripts are put together from files: Redis gives a script no way to load
// another. Each file says in its header what it needs and answers.
var (
	//go:embed exact.lua
	exactLua string
	//go:embed read.lua
	readLua string
	//go:embed wait.lua
	waitLua string
	//go:embed write.lua
	writeLua string
	//go:embed counter.lua
	counterLua string
	//go:embed decide.lua
	decideLua string
	//go:embed many.lua
	manyLua string
	//go:embed settle.lua
	settleLua string
	//go:embed reset.lua
	resetLua string

	// rare returns the functions of three files, and makes them only when asked.
	rareLua = "local made\nlocal function rare()\nif made then return made end\nlocal f = {}\nmade = f\n" +
		readLua + waitLua + writeLua + "return f\nend\n"

	decideScript = newScript(counterLua + exactLua + rareLua + decideLua)
	manyScript   = newScript(counterLua + manyLua)
	settleScript = newScript(counterLua + rareLua + settleLua)
	resetScript  = newScript(resetLua)
)
