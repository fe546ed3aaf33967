// Calls a function that goroutines leave on another thread than they entered it on. Prints how many
// calls there were, and how many of them changed threads.
package main

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
)

const goroutines, rounds, turns = 40, 50, 100

var moved int64

//go:noinline
func waits(n int) int {
	before := syscall.Gettid()
	for turn := 0; turn < turns; turn++ {
		runtime.Gosched()
		if syscall.Gettid() != before {
			atomic.AddInt64(&moved, 1)
			break
		}
	}
	return n + 1
}

func main() {
	var all sync.WaitGroup
	for g := 0; g < goroutines; g++ {
		all.Add(1)
		go func() {
			defer all.Done()
			for n := 0; n < rounds; n++ {
				waits(n)
			}
		}()
	}
	all.Wait()
	fmt.Println(goroutines*rounds, moved)
}
