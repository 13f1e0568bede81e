"""Users, tokens and who may do what."""

from __future__ import annotations

import base64
import re
from typing import TYPE_CHECKING

from quads_simulator import answers
from quads_simulator.answers import Answer, Request
from quads_simulator.state import User

if TYPE_CHECKING:
    from quads_simulator.core import Simulator

FORBIDDEN = {"message": "You don't have the permission to access the requested resource", "error": "Forbidden"}


class Access:
    """Checks credentials. Two logins of one user within a second get the same token."""

    def __init__(self, simulator: Simulator) -> None:
        self.simulator = simulator
        self.users: dict[str, User] = {}
        self.tokens: dict[str, tuple[str, float]] = {}
        self.api_tokens: dict[str, str] = {}
        self.revoked: set[str] = set()

    def add(self, email: str, password: str, role: str = "user") -> User:
        """Add a user."""
        self.users[email] = User(email, password, role)
        return self.users[email]

    def token(self, email: str) -> str:
        """Return a token that is valid from now on."""
        now = int(self.simulator.clock.now())
        text = base64.urlsafe_b64encode(f"{email}|{now}".encode()).decode().rstrip("=")
        self.tokens[text] = (email, now + self.simulator.config.token_lifetime)
        return text

    def expire_all(self) -> None:
        """End the life of every token that was given out."""
        now = self.simulator.clock.now()
        self.tokens = {text: (email, now - 1) for text, (email, _) in self.tokens.items()}

    def user_of(self, request: Request, roles: tuple[str, ...]) -> User:
        """Return the user of a request. Raises the refusal that the server would send."""
        header = request.headers.get("authorization", "")
        if not header:
            raise answers.bare({"message": "Missing authentication data", "error": "Bad Request"}, 400)
        basic = request.basic()
        if basic:
            user = self.users.get(basic[0])
            if not user or user.password != basic[1]:
                raise answers.bare({"message": "Invalid Credentials!", "error": "Unauthorized"}, 401)
        else:
            user = self._bearer(header.partition(" ")[2])
        if user.role not in roles:
            raise answers.bare(FORBIDDEN, 403)
        return user

    def _bearer(self, text: str) -> User:
        if self.simulator.config.dev and text.startswith("qat_"):
            if text not in self.api_tokens:
                raise answers.bare({"message": "Invalid API token!", "error": "Unauthorized"}, 401)
            return self.users[self.api_tokens[text]]
        email, until = self.tokens.get(text, ("", 0.0))
        if email not in self.users or text in self.revoked or self.simulator.clock.now() >= until:
            raise answers.bare({"message": "Invalid Authentication token!", "error": "Unauthorized"}, 401)
        return self.users[email]

    def register(self, request: Request) -> Answer:
        """POST /register."""
        given = self.simulator.json_of(request)
        if not re.fullmatch(r"[^@\s]+@[^@\s]+\.[^@\s]+", given.get("email", "")):
            raise answers.bare({"status_code": 401, "status": "fail", "message": "Invalid email address."}, 401)
        if given["email"] in self.users:
            text = "User already exists. Please Log in."
            raise answers.bare({"status_code": 401, "status": "fail", "message": text}, 401)
        self.add(given["email"], given["password"])
        return self._welcome(given["email"], "Successfully registered", 200)

    def login(self, request: Request) -> Answer:
        """POST /login, with HTTP Basic."""
        basic = request.basic()
        user = self.users.get(basic[0]) if basic else None
        if not basic or not user or user.password != basic[1]:
            answer = Answer(401, answers.HTML, "Unauthorized Access")
            answer.headers["WWW-Authenticate"] = 'Basic realm="Authentication Required"'
            return answer
        return self._welcome(user.email, "Successful login", 201)

    def _welcome(self, email: str, message: str, code: int) -> Answer:
        token = self.token(email)
        return answers.data({"auth_token": token, "message": message, "status": "success", "status_code": code})

    def logout(self, request: Request) -> Answer:
        """POST /logout."""
        text = request.headers.get("authorization", "").partition(" ")[2]
        email, until = self.tokens.get(text, ("", 0.0))
        if not email or self.simulator.clock.now() >= until:
            message = "Signature expired. Please log in again." if email else "Invalid token. Please log in again."
            return answers.data({"message": message, "status": "fail"}, 401)
        self.revoked.add(text)
        return answers.data({"message": "Successfully logged out.", "status": "success"})
