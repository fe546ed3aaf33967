// Calls functions that panic, and recovers, in goroutines whose stacks grow.
package main

import "fmt"

//go:noinline
func leaf(n int) int {
	if n%2 == 1 {
		panic("odd")
	}
	return n + 1
}

//go:noinline
func deep(levels int, n int) int {
	var room [64]int
	room[levels%64] = n
	if levels == 0 {
		return leaf(n)
	}
	return deep(levels-1, n) + room[levels%64] - n
}

// Its first instruction is its return where arguments are in registers.
//
//go:noinline
func same(n int) int { return n }

//go:noinline
func handler(n int) (got int) {
	got = same(deep(n*40, n) + 10)
	return got
}

//go:noinline
func guarded(n int) (got int) {
	defer func() {
		if recover() != nil {
			got = -1
		}
	}()
	return handler(n)
}

func main() {
	done := make(chan int)
	for g := 0; g < 3; g++ {
		go func() {
			sum := 0
			for n := 0; n < 6; n++ {
				sum += guarded(n)
			}
			done <- sum
		}()
	}
	fmt.Println(<-done, <-done, <-done)
}
