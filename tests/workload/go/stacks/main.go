// Prints the stack of a goroutine by runtime.Callers: address, function and line of each frame.
package main

import (
	"fmt"
	"runtime"
	"sort"
)

//go:noinline
func probed(n int) int {
	pcs := make([]uintptr, 64)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs)])
	for {
		frame, more := frames.Next()
		fmt.Println(frame.PC, frame.Function, frame.Line)
		if !more {
			return n
		}
	}
}

func inlined(n int) int { return probed(n+1) * 3 }

//go:noinline
func recurse(n int) int {
	if n > 0 {
		return recurse(n-1) + n
	}
	values := []int{2, 1}
	done := false
	sort.Slice(values, func(i, j int) bool {
		if !done {
			done = true
			inlined(n)
		}
		return values[i] < values[j]
	})
	return values[0]
}

func main() {
	done := make(chan int)
	go func() { done <- recurse(2) }()
	<-done
}
