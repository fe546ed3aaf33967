#!/usr/bin/env escript
%% A TLS server of Erlang/OTP: certificate, key. Prints its port, and answers one request of each connection.

main([Certificate, Key]) ->
    {ok, _} = application:ensure_all_started(ssl),
    Options = [{certfile, Certificate}, {keyfile, Key}, {active, false}, {mode, binary}],
    {ok, Listener} = ssl:listen(0, [{ip, {127, 0, 0, 1}} | Options]),
    {ok, {_, Port}} = ssl:sockname(Listener),
    io:format("~p~n", [Port]),
    serve(Listener).

serve(Listener) ->
    {ok, Accepted} = ssl:transport_accept(Listener),
    case ssl:handshake(Accepted) of
        {ok, Socket} ->
            {ok, _} = ssl:recv(Socket, 0),
            ssl:send(Socket, <<"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi">>),
            ssl:close(Socket);
        {error, _} ->
            ok
    end,
    serve(Listener).
