package redistest_test

import (
	"errors"
	"fmt"
	"log"
	"net"
	"testing"
	"time"

	"github.com/slidegate/slidegate/core/redisstore/redistest"
)

// target answers one connection with a word, as a server would.
func target() net.Listener {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Write([]byte("hello"))
		}
	}()
	return listener
}

// read connects and reads what comes within 5 s.
func read(addr string) (string, error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
		return "", err
	}
	b := make([]byte, 100)
	n, err := conn.Read(b)
	return string(b[:n]), err
}

func ExampleStartProxy() {
	listener := target()
	defer listener.Close()
	proxy, err := redistest.StartProxy(listener.Addr().String())
	if err != nil {
		log.Fatal(err)
	}
	defer func() {
		if err := proxy.Close(); err != nil {
			log.Print(err)
		}
	}()
	fmt.Println(read(proxy.Addr()))
	proxy.DropReplies(1)
	fmt.Println(read(proxy.Addr()))
	proxy.Refuse()
	_, err = read(proxy.Addr())
	fmt.Println("refused:", err != nil)
	if err := proxy.Heal(); err != nil {
		log.Print(err)
	}
	fmt.Println(read(proxy.Addr()))
	fmt.Println(proxy.Accepted(), "connections")
	// Output:
	// hello <nil>
	//  EOF
	// refused: true
	// hello <nil>
	// 3 connections
}

func ExampleNeedProxy() {
	// In a test file: func TestOutage(t *testing.T).
	_ = func(t *testing.T) {
		proxy := redistest.NeedProxy(t, redistest.Need(t).Addr())
		// Your client connects to proxy.Addr(). Each of these is one way to fail.
		proxy.Delay(20 * time.Millisecond)
		proxy.Stall()
		proxy.BlackHole()
		proxy.Reset()
		proxy.CutReply()
		if err := proxy.Heal(); err != nil {
			t.Error(err)
		}
		t.Log(proxy.Open(), "connections are open")
	}
}

func ExampleStartReplica() {
	master, err := redistest.Start()
	if err != nil {
		log.Fatal(err)
	}
	replica, err := redistest.StartReplica(master)
	if err != nil {
		log.Fatal(errors.Join(err, master.Stop()))
	}
	// A failover by hand: what the replica has not got yet is lost.
	err = errors.Join(master.Kill(), replica.Promote(), master.Restart(), master.Demote(replica))
	fmt.Println(errors.Join(err, master.Stop(), replica.Stop()))
}

func ExampleStartSentinel() {
	sentinel, err := redistest.StartSentinel()
	if err != nil {
		log.Fatal(err)
	}
	defer func() {
		if err := sentinel.Stop(); err != nil {
			log.Print(err)
		}
	}()
	fmt.Println("for redis.NewFailoverClient:", sentinel.MasterName(), sentinel.Addrs())
	master, err := sentinel.Master()
	if err != nil {
		log.Print(err)
		return
	}
	// The sentinels make the replica the master.
	if err := master.Kill(); err != nil {
		log.Print(err)
	}
}

func ExampleServer_Do() {
	server, err := redistest.Start()
	if err != nil {
		log.Fatal(err)
	}
	keys, err := server.Do("DBSIZE")
	fmt.Println(keys, errors.Join(err, server.Stop()))
}
