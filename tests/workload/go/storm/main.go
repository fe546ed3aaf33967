// Connections between goroutines of one process, whose stacks grow and shrink all the time: `storm CONNECTIONS SECONDS`
// waits for a line, then prints for each direction the ports of sender and receiver, how many bytes passed, and their
// SHA-256.
//
// Readers read into buffers on their own stacks, at changing depths; GOGC=1 makes the collector shrink the stacks of those
// that wait.
package main

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	cryptorand "crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"hash"
	"math/big"
	"math/rand"
	"net"
	"os"
	"strconv"
	"sync"
	"time"
)

const (
	mostBytes = 40000
	mostDepth = 60
)

func main() {
	connections, _ := strconv.Atoi(os.Args[1])
	seconds, _ := strconv.ParseFloat(os.Args[2], 64)
	config := &tls.Config{Certificates: []tls.Certificate{certificate()}, InsecureSkipVerify: true}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	fmt.Println("ready")
	_, err = bufio.NewReader(os.Stdin).ReadString('\n')
	check(err)
	// All are open before one ends: none gets the port of another.
	var all, open sync.WaitGroup
	var end time.Time
	open.Add(1)
	for number := 0; number < connections; number++ {
		dialled, err := net.Dial("tcp", listener.Addr().String())
		check(err)
		accepted, err := listener.Accept()
		check(err)
		client, server := tls.Client(dialled, config), tls.Server(accepted, config)
		seed := int64(number)
		all.Add(4)
		for _, run := range []func(){
			func() { send(client, seed, &end, &all) },
			func() { send(server, -seed, &end, &all) },
			func() { receive(client, seed, &all) },
			func() { receive(server, -seed, &all) },
		} {
			run := run
			go func() {
				open.Wait()
				run()
			}()
		}
	}
	end = time.Now().Add(time.Duration(seconds * float64(time.Second)))
	open.Done()
	all.Wait()
}

func certificate() tls.Certificate {
	key, err := ecdsa.GenerateKey(elliptic.P256(), cryptorand.Reader)
	check(err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	signed, err := x509.CreateCertificate(cryptorand.Reader, template, template, key.Public(), key)
	check(err)
	return tls.Certificate{Certificate: [][]byte{signed}, PrivateKey: key}
}

// send writes until the end, then says so: the other side reads all of it.
func send(conn *tls.Conn, seed int64, end *time.Time, all *sync.WaitGroup) {
	defer all.Done()
	random := rand.New(rand.NewSource(seed))
	sum := sha256.New()
	total := 0
	check(conn.Handshake())
	for total == 0 || time.Now().Before(*end) {
		data := make([]byte, 1+random.Intn(mostBytes)>>uint(random.Intn(12)))
		random.Read(data)
		deep(random.Intn(mostDepth), func() { check(second(conn.Write(data))) })
		sum.Write(data)
		total += len(data)
		time.Sleep(time.Duration(random.Intn(20)) * time.Millisecond)
	}
	report(conn.LocalAddr(), conn.RemoteAddr(), total, sum)
	check(conn.CloseWrite())
}

func receive(conn *tls.Conn, seed int64, all *sync.WaitGroup) {
	defer all.Done()
	random := rand.New(rand.NewSource(seed))
	sum := sha256.New()
	total := 0
	for {
		count := 0
		deep(random.Intn(mostDepth), func() { count = readOnStack(conn, sum) })
		if count == 0 {
			break
		}
		total += count
	}
	report(conn.RemoteAddr(), conn.LocalAddr(), total, sum)
}

// readOnStack reads into memory that moves with the goroutine's stack; 0 at the end.
func readOnStack(conn *tls.Conn, sum hash.Hash) int {
	var buffer [1000]byte
	count, _ := conn.Read(buffer[:])
	for _, value := range buffer[:count] {
		sum.Write([]byte{value})
	}
	return count
}

func report(from, to net.Addr, total int, sum hash.Hash) {
	fmt.Printf("%d %d %d %x\n", from.(*net.TCPAddr).Port, to.(*net.TCPAddr).Port, total, sum.Sum(nil))
}

// deep calls what is given some frames further down.
//
//go:noinline
func deep(depth int, call func()) {
	var frame [512]byte
	frame[depth%len(frame)] = 1
	if depth == 0 {
		call()
	} else {
		deep(depth-1, call)
	}
	_ = frame
}

func second(_ int, err error) error { return err }

func check(err error) {
	if err != nil {
		panic(err)
	}
}
