// Calls a function from many goroutines whose stacks grow, shrink and move.
package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
)

//go:noinline
func traceme(a int, b int) int {
	return a + b
}

//go:noinline
func describe(name string, numbers []int, err error) (greeting string, isEnough bool) {
	return name + "!", err != nil && len(numbers) > 2
}

//go:noinline
func deep(levels int, a int) int {
	var room [64]int
	room[levels%64] = a
	if levels == 0 {
		return traceme(room[0]+a, 2)
	}
	return deep(levels-1, a) + room[levels%64] - a
}

var sum int64

func main() {
	goroutines, _ := strconv.Atoi(os.Args[1])
	rounds, _ := strconv.Atoi(os.Args[2])
	fmt.Println(traceme(1, 2))
	fmt.Println(describe("gopher", []int{1, 2, 3}, errors.New("out of cheese")))
	var all sync.WaitGroup
	for g := 0; g < goroutines; g++ {
		all.Add(1)
		go func(g int) {
			defer all.Done()
			for round := 0; round < rounds; round++ {
				deep(round%40, 0)
				atomic.AddInt64(&sum, int64(traceme(g, round)))
			}
		}(g)
	}
	all.Wait()
	fmt.Println(sum)
}
