package redisstore

import "context"

type Script = script

var NewScript = newScript

func (s *script) Run(ctx context.Context, c Client, keys []string, args []any) ([]int64, error) {
	return s.run(ctx, c, keys, args)
}

func (s *script) SHA() string { return s.sha }
